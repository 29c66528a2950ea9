// The declaration of `roles`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, remove, update } from '../declare.ts';
import { Comment, describedBody, exampleFields, nullable, Owner, PropertiesField, recordFields } from '../fields.ts';
import { searchByName } from '../search.ts';
import { ready, readyState } from '../states.ts';
import { getAtTop, listAtTop, renameAtTop } from '../top_level.ts';

export const membersMax = 20_000;

const Members = Type.Array(Type.String(), { maxItems: membersMax, description: 'Names of users.' });

export const RoleRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  members: Type.Array(Type.String(), { description: 'The names of its users, sorted.' }),
  ...readyState,
  owner: Owner,
  ...recordFields,
});

const NamedMembers = strictObject({
  members: Type.Array(Type.String(), { minItems: 1, maxItems: membersMax, description: 'Names of users.' }),
});

const changeMembers = (summary: string) =>
  action('object', {
    summary,
    permission: { privilege: 'grant', on: 'object' },
    codes: ['CHANGE_IN_PROGRESS'],
    body: NamedMembers,
    bodyRequired: true,
    result: RoleRecord,
    example: { body: { members: ['bob'] } },
  });

export const rolesApi = category({
  name: 'roles',
  singular: 'role',
  title: 'Roles',
  doc: 'Groups of users that share grants.',
  parameter: 'role',
  securable: true,
  record: RoleRecord,
  example: {
    name: 'analysts',
    comment: 'Read the reports',
    properties: {},
    members: ['ann'],
    ...ready,
    owner: 'root',
    ...exampleFields('/api/v2/roles/analysts'),
  },
  endpoints: {
    list: listAtTop('Lists roles by name.'),
    get: getAtTop('Shows a role.'),
    create: create({
      summary: 'Creates a role.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ ...describedBody, members: Type.Optional(Members) }),
      example: { body: { name: 'analysts', members: ['ann'] } },
    }),
    update: update({
      summary: 'Changes comment, properties, owner or members of a role.',
      description: '`members` is the complete new list. It requires `grant` on the role.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ ...describedBody, members: Type.Optional(Members) }),
      example: { body: { members: ['ann', 'bob'] } },
    }),
    delete: remove({
      summary: 'Deletes a role and its grants.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
    }),
    rename: renameAtTop(RoleRecord, 'Renames a role; its members and grants are unchanged.', 'reporting'),
    add_members: changeMembers('Adds users to a role. Users who already are members are ignored.'),
    remove_members: changeMembers('Removes users from a role. Users who are not members are ignored.'),
    search: searchByName({ category: 'roles', record: RoleRecord, example: 'a%' }),
  },
});
