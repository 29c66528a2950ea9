// The declaration of the actions of users.
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { noFields, nullable, pageFields, Timestamp, Uri } from '../fields.ts';
import { GrantFields, On, PrivilegeField } from './grant_fields.ts';
import { Password, UserRecord } from './user_fields.ts';

const EffectiveGrant = Type.Object(
  {
    ...GrantFields,
    via: Type.Object({ category: Type.String({ description: '`users` or `roles`.' }), name: Type.String() }),
  },
  { title: 'EffectiveGrant' },
);

const EffectiveGrants = Type.Object({
  grants: Type.Array(EffectiveGrant),
  nextPageToken: Type.Optional(Type.String()),
});

const exampleGrants = {
  grants: [
    {
      grantId: 'read-019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
      privilege: 'read',
      on: '/api/v2/catalogs/default/databases/ssb',
      via: { category: 'roles', name: 'analysts' },
    },
  ],
};

export const userActionsApi = {
  change_password: action('object', {
    summary: 'Changes the password of a user; requires the current one.',
    description: 'Sessions with the old password end with their next request. Tokens remain valid.',
    permission: { privilege: 'own', on: 'object', orSelf: true },
    codes: ['CHANGE_IN_PROGRESS', 'OBJECT_PROTECTED'],
    body: strictObject({ currentPassword: Password, newPassword: Password }),
    bodyRequired: true,
    result: UserRecord,
    example: { body: { currentPassword: 'correct horse battery', newPassword: 'another staple of words' } },
  }),
  effective_grants: action('object', {
    summary: 'Lists the grants of a user and of its roles. Owned objects are not included.',
    permission: { privilege: 'read', on: 'object', orSelf: true },
    body: strictObject(pageFields),
    item: EffectiveGrant,
    result: EffectiveGrants,
    example: {
      body: {},
      result: exampleGrants,
    },
  }),
  search_grants: action('collection', {
    summary: 'Lists the users and roles with grants on an object, on one of its parents, or on everything.',
    description:
      'Includes only users and roles that the caller may read. Owners need no grants and are not listed. For an object that does not exist, the grants on its parents are listed.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    body: strictObject(
      { on: On, privilege: Type.Optional(PrivilegeField), ...pageFields },
      { title: 'SearchGrantsRequest' },
    ),
    bodyRequired: true,
    item: EffectiveGrant,
    result: EffectiveGrants,
    example: {
      body: { on: '/api/v2/catalogs/default/databases/ssb/tables/lineorder', privilege: 'read' },
      result: exampleGrants,
    },
  }),
  identify: action('collection', {
    summary: 'Returns the identity of the caller.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    body: noFields,
    result: Type.Object({
      name: Type.String(),
      uri: Uri,
      credential: Type.String({ description: '`root token`, `token`, `password` or `identity provider`.' }),
      expiresAt: nullable(Timestamp),
      roles: Type.Array(Type.String(), {
        description: 'The roles of the user, and those assigned by its identity provider.',
      }),
      scoped: Type.Boolean({ description: 'Whether its token is restricted by scopes.' }),
    }),
    example: {
      body: {},
      result: {
        name: 'ann',
        uri: '/api/v2/users/ann',
        credential: 'token',
        expiresAt: '2026-12-31T00:00:00.000Z',
        roles: ['analysts'],
        scoped: false,
      },
    },
  }),
};
