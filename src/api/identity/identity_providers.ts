// The declaration of `identity_providers`: records, operations, bodies and results.
import { signingAlgorithms } from '../../model/signing_algorithms.ts';
import { httpUrl } from '../../standard/documented_limits.ts';
import { mapPatchOf } from '../../standard/schema/merge_patch.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, remove, update } from '../declare.ts';
import {
  Comment,
  describedBody,
  exampleFields,
  nullable,
  Owner,
  oneOf,
  PropertiesField,
  recordFields,
} from '../fields.ts';
import { searchByName } from '../search.ts';
import { enabledState } from '../states.ts';
import { getAtTop, listAtTop } from '../top_level.ts';

const Url = Type.String({ minLength: 1, maxLength: 2048, ...httpUrl });

const Claim = Type.String({ minLength: 1, maxLength: 256 });

const Text = Type.String({ minLength: 1, maxLength: 512 });

const fields = {
  issuer: Type.String({ ...Url, description: 'The exact value of `iss` in its tokens.' }),
  audiences: Type.Array(Text, { minItems: 1, maxItems: 100, description: 'The `aud` of a token must be one of them.' }),
  algorithms: Type.Array(oneOf(signingAlgorithms), {
    minItems: 1,
    maxItems: signingAlgorithms.length,
    description: 'The accepted signature algorithms; HS* require `clientSecret`.',
  }),
  userClaim: Type.String({
    ...Claim,
    description:
      'The claim that contains the names of new users. With `email`, a token whose `email_verified` is false is refused, and one without it creates no user.',
  }),
  roleMapping: Type.Record(Type.String(), Type.String(), {
    maxProperties: 1000,
    description: 'Maps values of `rolesClaim` to names of roles. Other values are ignored.',
  }),
  createUsers: Type.Boolean({ description: 'Whether users are created at their first login.' }),
  disabled: Type.Boolean({ description: 'Whether its tokens are refused.' }),
};

const jwksUri = nullable(
  Type.String({ ...Url, description: 'The URL of its keys; null: the one in its discovery document.' }),
);

const rolesClaim = nullable(
  Type.String({ ...Claim, description: 'The claim that contains roles, such as `realm_access.roles`; null: none.' }),
);

const consoleClientId = nullable(
  Type.String({
    ...Text,
    description:
      'The client id for signing in to the console (authorization code with PKCE), one of `audiences`; the redirect URI is `/console/sign_in` of this server. Null: no sign-in.',
  }),
);

export const ProviderRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  ...fields,
  jwksUri,
  rolesClaim,
  consoleClientId,
  hasClientSecret: Type.Boolean(),
  keysFetchedAt: nullable(
    Type.String({ format: 'date-time', description: 'The time at which its keys were last fetched.' }),
  ),
  error: nullable(Type.String({ description: 'Set while its signing keys are unavailable.' })),
  ...enabledState,
  owner: Owner,
  ...recordFields,
});

const changeFields = {
  ...describedBody,
  issuer: Type.Optional(fields.issuer),
  audiences: Type.Optional(fields.audiences),
  algorithms: Type.Optional(fields.algorithms),
  jwksUri: Type.Optional(jwksUri),
  userClaim: Type.Optional(fields.userClaim),
  rolesClaim: Type.Optional(rolesClaim),
  roleMapping: Type.Optional(mapPatchOf(fields.roleMapping)),
  createUsers: Type.Optional(fields.createUsers),
  disabled: Type.Optional(fields.disabled),
  consoleClientId: Type.Optional(consoleClientId),
  clientSecret: Type.Optional(
    nullable(Type.String({ minLength: 32, maxLength: 1024, description: 'Stored encrypted, never shown.' })),
  ),
};

export const ChangeBody = strictObject({ ...changeFields });

export const identityProvidersApi = category({
  name: 'identity_providers',
  singular: 'identity_provider',
  title: 'Identity providers',
  doc: 'Issuers of OpenID Connect tokens that are accepted as `Authorization: Bearer`.',
  parameter: 'identityProvider',
  securable: true,
  record: ProviderRecord,
  example: {
    name: 'company',
    comment: null,
    properties: {},
    issuer: 'https://login.example.com',
    audiences: ['tabularium'],
    algorithms: ['RS256'],
    userClaim: 'email',
    roleMapping: { finance: 'analysts' },
    createUsers: true,
    disabled: false,
    jwksUri: null,
    rolesClaim: 'groups',
    consoleClientId: 'tabularium',
    hasClientSecret: false,
    keysFetchedAt: '2026-01-31T10:00:00.000Z',
    error: null,
    state: 'enabled',
    owner: 'root',
    ...exampleFields('/api/v2/identity_providers/company'),
  },
  endpoints: {
    list: listAtTop('Lists identity providers by name.'),
    get: getAtTop('Returns an identity provider, and whether its keys are available.'),
    create: create({
      summary: 'Creates an identity provider, whose tokens are accepted from then on.',
      description: 'Requires `grant` on each mapped role and, with `createUsers`, `create` on `/api/v2/users`.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: strictObject({ ...changeFields, issuer: fields.issuer, audiences: fields.audiences }),
      bodyRequired: true,
      example: {
        body: { name: 'company', issuer: 'https://login.example.com', audiences: ['tabularium'], createUsers: true },
      },
    }),
    update: update({
      summary: 'Changes an identity provider.',
      description: 'Requires `grant` on each mapped role and, with `createUsers`, `create` on `/api/v2/users`.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      body: ChangeBody,
      example: { body: { disabled: true } },
    }),
    delete: remove({
      summary: 'Deletes an identity provider. Its users remain, but can no longer sign in with it.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
    }),
    search: searchByName({ category: 'identity_providers', record: ProviderRecord, example: 'comp%' }),
  },
});
