// Identity providers: issuers of tokens (OpenID Connect) whose word is taken for who somebody is, and perhaps for roles.
import type { ProviderSpec } from '../../access/authentication/identity_providers.ts';
import {
  Comment,
  describedBody,
  exampleFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { enabledState } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { Category } from '../../standard/endpoint.ts';
import { type Static, Type } from '../../standard/type.ts';
import { defined, describe, invalid, last, shownDescription } from '../records/fields.ts';
import {
  type Context,
  commonFields,
  create,
  deleted,
  newOwner,
  ownerId,
  ownerName,
  type Render,
  remove,
  render,
  requireOnCollection,
  requirePrivilege,
  segment,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchOf } from '../records/search.ts';
import { enabledStateOf } from '../records/states.ts';
import { topLevelCategory } from '../records/top_level_category.ts';

const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'HS256',
  'HS384',
  'HS512',
] as const;
const Url = Type.String({ minLength: 1, maxLength: 2048 });
const Claim = Type.String({ minLength: 1, maxLength: 256 });
const Text = Type.String({ minLength: 1, maxLength: 512 });

const fields = {
  issuer: Type.String({ minLength: 1, maxLength: 2048, description: 'Exactly as `iss` of its tokens has it.' }),
  audiences: Type.Array(Text, { minItems: 1, maxItems: 100, description: 'A token is for one of them (`aud`).' }),
  algorithms: Type.Array(Type.Union(algorithms.map((name) => Type.Literal(name))), {
    minItems: 1,
    maxItems: algorithms.length,
    description: 'Those that are accepted; HS* need `clientSecret`.',
  }),
  userClaim: Type.String({
    ...Claim,
    description:
      'The claim that new users are named by. With `email`, a token whose `email_verified` is false is refused, and one without it makes no user.',
  }),
  roleMapping: Type.Record(Type.String(), Type.String(), {
    maxProperties: 1000,
    description: 'From values of `rolesClaim` to names of roles here. What is not in it is ignored.',
  }),
  createUsers: Type.Boolean({ description: 'Whether who comes for the first time becomes a user.' }),
  disabled: Type.Boolean({ description: 'Whether its tokens are refused.' }),
};
const jwksUri = nullable(
  Type.String({ ...Url, description: 'Where its keys are; null: where its discovery document says.' }),
);
const rolesClaim = nullable(
  Type.String({ ...Claim, description: 'The claim that has roles, such as `realm_access.roles`; null: none.' }),
);

const ProviderRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  ...fields,
  jwksUri,
  rolesClaim,
  hasClientSecret: Type.Boolean(),
  keysFetchedAt: nullable(Type.String({ format: 'date-time', description: 'When its keys were last fetched.' })),
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
  roleMapping: Type.Optional(fields.roleMapping),
  createUsers: Type.Optional(fields.createUsers),
  disabled: Type.Optional(fields.disabled),
  clientSecret: Type.Optional(
    nullable(Type.String({ minLength: 32, maxLength: 1024, description: 'Kept encrypted, never shown.' })),
  ),
};
const ChangeBody = Type.Object({ ...changeFields }, { additionalProperties: false });

type Provider = CatalogObject<ProviderSpec>;

const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as Provider;
  const { comment: _comment, properties: _properties, hasClientSecret, ...spec } = object.spec;
  const { keysFetchedAt, error } = context.identityProviders.status(object.id);
  return {
    name: object.name,
    ...shownDescription(object.spec),
    ...spec,
    jwksUri: spec.jwksUri ?? null,
    rolesClaim: spec.rolesClaim ?? null,
    hasClientSecret,
    keysFetchedAt: keysFetchedAt === undefined ? null : new Date(keysFetchedAt).toISOString(),
    error: error ?? null,
    ...enabledStateOf(spec.disabled),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const standing = topLevelCategory({
  category: 'identity_providers',
  parameter: 'identityProvider',
  record: ProviderRecord,
  toRecord,
});
const { pathOf } = standing;

type Asked = Omit<Static<typeof ChangeBody>, 'owner' | 'expectedVersion'>;
type Change = { readonly [K in keyof Asked]?: Asked[K] | undefined };

function specOf(before: ProviderSpec, change: Change): ProviderSpec {
  const { comment, properties, clientSecret, jwksUri: keys, rolesClaim: claim, ...rest } = change;
  const {
    jwksUri: keysBefore,
    rolesClaim: claimBefore,
    ...described
  } = describe<ProviderSpec>(before, defined({ comment, properties }));
  return {
    ...described,
    ...defined(rest as Partial<ProviderSpec>),
    ...defined({
      jwksUri: keys === undefined ? keysBefore : (keys ?? undefined),
      rolesClaim: claim === undefined ? claimBefore : (claim ?? undefined),
    }),
    hasClientSecret: clientSecret === undefined ? before.hasClientSecret : clientSecret !== null,
  };
}

/** Who maps a claim to a role puts whom it likes into it; who lets visitors become users makes users. */
async function check(spec: ProviderSpec, id: string | undefined, context: Context): Promise<void> {
  const fault = context.identityProviders.fault(spec, id);
  if (fault) throw invalid(fault.pointer, 'provider', fault.message);
  if (spec.algorithms.some((name) => name.startsWith('HS')) && !spec.hasClientSecret)
    throw invalid('/clientSecret', 'required', 'is needed for the HS* algorithms');
  if (spec.createUsers) await requireOnCollection('create', 'users', context);
  for (const role of new Set(Object.values(spec.roleMapping)))
    await requirePrivilege('grant', [segment('roles', role)], context);
  for (const [claim, role] of Object.entries(spec.roleMapping))
    if (!context.directory.roleNamed(role))
      throw invalid(`/roleMapping/${claim}`, 'exists', `names no role: ${JSON.stringify(role)}`);
}

const nothing: ProviderSpec = {
  issuer: '',
  audiences: [],
  algorithms: ['RS256'],
  userClaim: 'sub',
  roleMapping: {},
  createUsers: false,
  disabled: false,
  hasClientSecret: false,
};

export const identityProviders: Category<Context> = {
  name: 'identity_providers',
  singular: 'identity_provider',
  title: 'Identity providers',
  doc: 'Issuers of OpenID Connect tokens that are accepted as `Authorization: Bearer`.',
  parameter: 'identityProvider',
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
    hasClientSecret: false,
    keysFetchedAt: '2026-01-31T10:00:00.000Z',
    error: null,
    state: 'enabled',
    owner: 'root',
    ...exampleFields('/api/v2/identity_providers/company'),
  },
  endpoints: [
    standing.list('Lists identity providers by name.'),
    standing.get('Shows an identity provider, and whether its keys are at hand.'),
    create({
      summary: 'Creates an identity provider. Its tokens are accepted from then on.',
      description:
        'The caller needs `grant` on each role that is mapped to and, with `createUsers`, `create` on `/api/v2/users`.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      body: Type.Object(
        { ...changeFields, issuer: fields.issuer, audiences: fields.audiences },
        { additionalProperties: false },
      ),
      bodyRequired: true,
      example: {
        body: { name: 'company', issuer: 'https://login.example.com', audiences: ['tabularium'], createUsers: true },
      },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner, clientSecret, ...change } = body as typeof body & { name: string };
        const existing = await context.catalog.find([segment('identity_providers', name)]);
        const spec = specOf(nothing, { ...change, clientSecret });
        if (!existing) await check(spec, undefined, context);
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'identity_providers',
          name,
          spec,
          owner: ownerId(owner, context),
          principal: context.call.actor,
          ifExists,
          inTransaction: (tx, id) => context.identityProviders.storeSecret(tx, id, clientSecret),
        });
        if (made) await context.identityProviders.reload();
        return standing.createdAs(object, made, context);
      },
    }),
    update({
      summary: 'Changes an identity provider.',
      description:
        'The caller needs `grant` on each role that is mapped to and, with `createUsers`, `create` on `/api/v2/users`.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS'],
      body: ChangeBody,
      example: { body: { disabled: true } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Provider];
        const { owner, ...change } = body;
        const spec = specOf(object.spec, change);
        await check(spec, object.id, context);
        const changed = await context.catalog.update(object, {
          spec,
          owner: await newOwner(owner, pathOf(path), context),
          principal: context.call.actor,
          inTransaction: (tx) => context.identityProviders.storeSecret(tx, object.id, change.clientSecret),
        });
        await context.identityProviders.reload();
        return updated(await render(pathOf(path), [changed.object ?? object], context, toRecord));
      },
    }),
    remove({
      summary: 'Deletes an identity provider. Its users stay, and cannot come by it any more.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.find(pathOf(path))) ?? [];
        if (!object) return deleted(false);
        const was = await context.catalog.drop(object, {
          principal: context.call.actor,
          cascade: true,
          childCategories: [],
          inTransaction: (tx) => context.identityProviders.storeSecret(tx, object.id, null),
        });
        await context.identityProviders.reload();
        return deleted(was);
      },
    }),
    searchOf({ category: 'identity_providers', record: ProviderRecord, toRecord, example: 'comp%' }),
  ],
};
