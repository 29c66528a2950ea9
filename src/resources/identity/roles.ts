// Roles: sets of users that things are granted to together.

import {
  Comment,
  describedBody,
  exampleFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { readyState } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Properties } from '../../model/records.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Type } from '../../standard/type.ts';
import { describe, invalid, last, requirePrincipalName, shownDescription } from '../records/fields.ts';
import {
  action,
  type Context,
  commonFields,
  create,
  deleted,
  done,
  newOwner,
  ownerId,
  ownerName,
  type Render,
  remove,
  render,
  requirePrivilege,
  update,
  updated,
  userNamed,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { ready } from '../records/states.ts';
import { topLevelCategory } from '../records/top_level_category.ts';

const membersMax = 20_000;
const Members = Type.Array(Type.String(), { maxItems: membersMax, description: 'Names of users.' });

const RoleRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  members: Type.Array(Type.String(), { description: 'Names of its users, in order.' }),
  ...readyState,
  owner: Owner,
  ...recordFields,
});

interface RoleSpec {
  readonly comment?: string;
  readonly properties?: Properties;
}
type Role = CatalogObject<RoleSpec>;

const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as Role;
  const { directory } = context;
  const members = [...directory.membersOf(object.id)].flatMap((id) => directory.users.get(id)?.name ?? []);
  return {
    name: object.name,
    ...shownDescription(object.spec),
    members: members.sort(),
    ...ready,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const standing = topLevelCategory({
  category: 'roles',
  parameter: 'role',
  record: RoleRecord,
  toRecord,
  checkName: requirePrincipalName,
});
const { pathOf } = standing;

function idsOfMembers(names: readonly string[], pointer: string, context: Context): Set<string> {
  return new Set(names.map((name, i) => userNamed(name, `${pointer}/${i}`, context)));
}

type Tx = Parameters<NonNullable<Parameters<Context['catalog']['update']>[1]['inTransaction']>>[0];

async function writeMembers(tx: Tx, roleId: string, userIds: ReadonlySet<string>): Promise<void> {
  await tx.deleteFrom('role_members').where('role_id', '=', roleId).execute();
  const rows = [...userIds].map((user_id) => ({ role_id: roleId, user_id }));
  for (let at = 0; at < rows.length; at += 1000)
    await tx
      .insertInto('role_members')
      .values(rows.slice(at, at + 1000))
      .execute();
}

/** `change`: from the members that it has to those that it gets. Membership is all that the role may. */
async function setMembers(
  path: PathParameters,
  change: (members: Set<string>) => Set<string>,
  context: Context,
): Promise<object> {
  const [object] = (await context.catalog.require(pathOf(path))) as [Role];
  const members = change(new Set(context.directory.membersOf(object.id)));
  if (members.size > membersMax) throw invalid('/members', 'maxItems', `would be more than ${membersMax}`);
  const changed = await context.catalog.update(object, {
    principal: context.call.actor,
    inTransaction: (tx) => writeMembers(tx, object.id, members),
  });
  context.directory.setMembers(object.id, members);
  return render(pathOf(path), [changed.object ?? object], context, toRecord);
}

const NamedMembers = Type.Object(
  { members: Type.Array(Type.String(), { minItems: 1, maxItems: membersMax, description: 'Names of users.' }) },
  { additionalProperties: false },
);

export const roles: Category<Context> = {
  name: 'roles',
  singular: 'role',
  title: 'Roles',
  doc: 'Sets of users that things are granted to together.',
  parameter: 'role',
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
  endpoints: [
    standing.list('Lists roles by name.'),
    standing.get('Shows a role.'),
    create({
      summary: 'Creates a role.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody, members: Type.Optional(Members) }, { additionalProperties: false }),
      example: { body: { name: 'analysts', members: ['ann'] } },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner, members = [] } = body as typeof body & { name: string };
        requirePrincipalName(name);
        const ids = idsOfMembers(members, '/members', context);
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'roles',
          name,
          spec: describe<RoleSpec>({}, body),
          owner: ownerId(owner, context),
          principal: context.call.actor,
          ifExists,
          inTransaction: (tx, id) => writeMembers(tx, id, ids),
        });
        if (made) context.directory.setMembers(object.id, ids);
        return standing.createdAs(object, made, context);
      },
    }),
    update({
      summary: 'Changes comment, properties, owner or members of a role.',
      description: '`members` is the whole new list. It needs `grant` on the role: its members may do what it may.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...describedBody, members: Type.Optional(Members) }, { additionalProperties: false }),
      example: { body: { members: ['ann', 'bob'] } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Role];
        const { members } = body;
        if (members !== undefined) await requirePrivilege('grant', pathOf(path), context);
        const ids = members && idsOfMembers(members, '/members', context);
        const changed = await context.catalog.update(object, {
          spec: describe<RoleSpec>(object.spec, body),
          owner: await newOwner(body.owner, pathOf(path), context),
          principal: context.call.actor,
          ...(ids ? { inTransaction: (tx: Tx) => writeMembers(tx, object.id, ids) } : {}),
        });
        if (ids) context.directory.setMembers(object.id, ids);
        return updated(await render(pathOf(path), [changed.object ?? object], context, toRecord));
      },
    }),
    remove({
      summary: 'Deletes a role and what was granted to it.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.find(pathOf(path))) ?? [];
        if (!object) return deleted(false);
        const principal = context.call.actor;
        return deleted(await context.catalog.drop(object, { principal, cascade: true, childCategories: [] }));
      },
    }),
    standing.rename('Renames a role; its members and grants stay.', 'reporting'),
    action('add_members', {
      on: 'object',
      summary: 'Puts users into a role. Those that are in it stay.',
      permission: { privilege: 'grant', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: NamedMembers,
      bodyRequired: true,
      result: RoleRecord,
      example: { body: { members: ['bob'] } },
      handle: async ({ path, body }, context) => {
        const more = () => idsOfMembers(body.members, '/members', context);
        return done(await setMembers(path, (members) => members.union(more()), context));
      },
    }),
    action('remove_members', {
      on: 'object',
      summary: 'Takes users out of a role. Those that are not in it do not matter.',
      permission: { privilege: 'grant', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: NamedMembers,
      bodyRequired: true,
      result: RoleRecord,
      example: { body: { members: ['bob'] } },
      handle: async ({ path, body }, context) => {
        const fewer = new Set(body.members.flatMap((name) => context.directory.userNamed(name)?.id ?? []));
        return done(await setMembers(path, (members) => members.difference(fewer), context));
      },
    }),
    searchOf({ category: 'roles', record: RoleRecord, toRecord, example: 'a%' }),
  ],
};
