// The declaration of `users`: records, operations, bodies and results.
import { patchOf } from '../../standard/schema/merge_patch.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, remove, update } from '../declare.ts';
import { describedBody, exampleFields, NewName, nullable } from '../fields.ts';
import { searchByName } from '../search.ts';
import { userActionsApi } from './user_actions.ts';
import { Identity, Password, UserRecord } from './user_fields.ts';

const changedBody = {
  comment: describedBody.comment,
  properties: describedBody.properties,
  owner: describedBody.owner,
  disabled: Type.Optional(Type.Boolean()),
  password: Type.Optional(nullable(Password)),
  identity: Type.Optional(nullable(Identity)),
};

const example = {
  name: 'ann',
  comment: 'Finance',
  properties: {},
  disabled: false,
  hasPassword: true,
  identity: null,
  roles: ['analysts'],
  state: 'enabled',
  owner: 'root',
  ...exampleFields('/api/v2/users/ann'),
};

export const usersApi = category({
  name: 'users',
  singular: 'user',
  title: 'Users',
  doc: 'Users, who authenticate with a password, with tokens, or with an identity provider.',
  parameter: 'user',
  securable: true,
  record: UserRecord,
  example,
  endpoints: {
    list: list({
      summary: 'Lists users by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Shows a user.',
      permission: { privilege: 'read', on: 'object', orSelf: true },
    }),
    create: create({
      summary: 'Creates a user, who has no privileges until some are granted.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject(changedBody),
      example: { body: { name: 'ann', password: 'correct horse battery', comment: 'Finance' } },
    }),
    update: update({
      summary: 'Changes a user: description, password, identity; disables and enables it.',
      description:
        'Changing password, identity or owner requires `own`, because it allows logging in as the user. Disabling or enabling requires `operate`.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'OBJECT_PROTECTED'],
      body: strictObject({ ...changedBody, identity: Type.Optional(nullable(patchOf(Identity))) }),
      example: { body: { disabled: true } },
    }),
    delete: remove({
      summary: 'Deletes a user with its tokens and grants. Its objects are then owned by `root`.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS'],
    }),
    rename: action('object', {
      summary: 'Renames a user; its objects and grants are unchanged.',
      permission: { privilege: 'own', on: 'object' },
      codes: ['OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS'],
      body: NewName,
      bodyRequired: true,
      result: UserRecord,
      example: { body: { newName: 'anna' } },
    }),
    ...userActionsApi,
    search: searchByName({ category: 'users', record: UserRecord, example: 'a%' }),
  },
});
