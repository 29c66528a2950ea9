// The declaration of the actions of users.
import { Type } from '../../standard/type.ts';
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
    summary: 'Changes the own password; requires the current one.',
    description: 'Sessions with the old password end with their next request. Tokens stay valid.',
    permission: { privilege: 'own', on: 'object', orSelf: true },
    codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'OBJECT_PROTECTED'],
    body: Type.Object({ currentPassword: Password, newPassword: Password }, { additionalProperties: false }),
    bodyRequired: true,
    result: UserRecord,
    example: { body: { currentPassword: 'correct horse battery', newPassword: 'another staple of words' } },
  }),
  effective_grants: action('object', {
    summary: 'Shows the grants of a user, its own and those of its roles, without the objects that it owns.',
    permission: { privilege: 'read', on: 'object', orSelf: true },
    codes: ['OBJECT_NOT_FOUND'],
    body: Type.Object(pageFields, { additionalProperties: false }),
    item: EffectiveGrant,
    result: EffectiveGrants,
    example: {
      body: {},
      result: exampleGrants,
    },
  }),
  search_grants: action('collection', {
    summary: 'Shows who was granted something on an object, on what contains it, or on everything.',
    description:
      'Of users and roles that the caller may see. Owners need no grants; an object that does not exist has only those above it.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    body: Type.Object(
      { on: On, privilege: Type.Optional(PrivilegeField), ...pageFields },
      { title: 'SearchGrantsRequest', additionalProperties: false },
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
    summary: 'Shows who the caller is.',
    permission: { privilege: 'read', on: 'parent', orWithin: true },
    body: noFields,
    result: Type.Object({
      name: Type.String(),
      uri: Uri,
      credential: Type.String({ description: '`root token`, `token`, `password` or `identity provider`.' }),
      expiresAt: nullable(Timestamp),
      roles: Type.Array(Type.String(), { description: 'Its own, and those of its identity provider.' }),
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
