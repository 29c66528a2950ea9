// The declaration of `tokens`: records, operations, bodies and results.
import { privileges } from '../../model/privileges.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, get, list, remove } from '../declare.ts';
import { nullable, oneOf, recordFields, searchFields, Timestamp } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';
import { usersApi } from './users.ts';

const scopesMax = 100;

const ScopeField = strictObject(
  {
    privilege: oneOf(privileges),
    on: Type.String({ minLength: 1, maxLength: 4096, description: 'A URI, as in `on` of a grant.' }),
  },
  { title: 'Scope' },
);

const Scopes = nullable(
  Type.Array(ScopeField, {
    maxItems: scopesMax,
    description: 'The privileges to which the token is restricted; null: all privileges of its user.',
  }),
  { title: 'Scopes' },
);

const TokenRecord = Type.Object({
  name: Type.String(),
  scopes: Scopes,
  expiresAt: nullable(Timestamp),
  lastUsedAt: nullable(Timestamp),
  state: stateField({ active: 'the token is accepted', expired: 'the token has expired' }),
  ...recordFields,
});

const own = { privilege: 'own', orSelf: true } as const;

export const tokensApi = category({
  name: 'tokens',
  singular: 'token',
  title: 'Tokens',
  doc: 'Secrets with which programs authenticate as a user, sent as `Authorization: Bearer`.',
  parameter: 'token',
  parent: usersApi,
  record: TokenRecord,
  example: {
    name: 'nightly',
    scopes: [{ privilege: 'read', on: '/api/v2/catalogs/default' }],
    expiresAt: '2026-12-31T00:00:00.000Z',
    lastUsedAt: null,
    state: 'active',
    createdAt: '2026-01-31T10:00:00.000Z',
    createdBy: 'ann',
    updatedAt: '2026-01-31T10:00:00.000Z',
    updatedBy: 'ann',
    version: 1,
    uri: '/api/v2/users/ann/tokens/nightly',
  },
  endpoints: {
    list: list({
      summary: 'Lists the tokens of a user by name; their secrets are not shown.',
      permission: { ...own, on: 'parent' },
    }),
    get: get({
      summary: 'Shows a token; its secret is not shown.',
      permission: { ...own, on: 'object' },
    }),
    create: create({
      summary: 'Creates a token. Its `secret` is returned only once, in this response.',
      description:
        'Without `expiresAt`, the token expires after 90 days; null: never. A token with scopes cannot create tokens.',
      permission: { ...own, on: 'parent' },
      codes: ['CHANGE_NOT_SUPPORTED'],
      secretFields: ['secret'],
      body: strictObject({ scopes: Type.Optional(Scopes), expiresAt: Type.Optional(nullable(Timestamp)) }),
      result: Type.Object({
        ...TokenRecord.properties,
        secret: Type.Optional(Type.String({ description: 'Returned only once; `tbl_pat_` and 256 random bits.' })),
        created: Type.Boolean(),
      }),
      example: {
        body: { name: 'nightly', scopes: [{ privilege: 'read', on: '/api/v2/catalogs/default' }] },
      },
    }),
    delete: remove({
      summary: 'Revokes a token: its next request is refused.',
      permission: { ...own, on: 'object' },
    }),
    search: searchBy({
      category: 'tokens',
      summary: 'Finds tokens of a user by name pattern.',
      permission: { ...own, on: 'parent' },
      fields: { namePattern: searchFields.namePattern },
      record: TokenRecord,
      example: { namePattern: 'night%' },
    }),
  },
});
