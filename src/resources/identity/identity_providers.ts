// The handlers of `identity_providers`: issuers of tokens (OpenID Connect) that the server trusts to identify users and,
// optionally, to assign roles.
import type { ProviderSpec } from '../../access/authentication/identity_providers.ts';
import { ChangeBody, identityProvidersApi } from '../../api/identity/identity_providers.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { mergePatch } from '../../standard/schema/merge_patch.ts';
import type { Static } from '../../standard/type.ts';
import { shownDescription } from '../records/fields.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { commonFields, type RenderOf, render } from '../records/object_records.ts';
import { updated } from '../records/outcomes.ts';
import { newOwner, ownerId, ownerName, requireOnCollection, requirePrivilege } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { enabledStateOf } from '../records/states.ts';
import { handlersAtTop } from '../records/top_level_category.ts';

const toRecord: RenderOf<typeof identityProvidersApi> = async ([object], uri, context) => {
  const { comment: _comment, properties: _properties, hasClientSecret, ...spec } = object.spec;
  const { keysFetchedAt, error } = context.identityProviders.status(object.id);
  return {
    name: object.name,
    ...shownDescription(object.spec),
    ...spec,
    jwksUri: spec.jwksUri ?? null,
    rolesClaim: spec.rolesClaim ?? null,
    consoleClientId: spec.consoleClientId ?? null,
    hasClientSecret,
    keysFetchedAt: keysFetchedAt === undefined ? null : new Date(keysFetchedAt).toISOString(),
    error: error ?? null,
    ...enabledStateOf(spec.disabled),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const commonHandlers = handlersAtTop('identity_providers', toRecord);

type RequestedFields = Omit<Static<typeof ChangeBody>, 'owner' | 'expectedVersion'>;

type Change = { readonly [K in keyof RequestedFields]?: RequestedFields[K] | undefined };

function specOf(before: ProviderSpec, change: Change): ProviderSpec {
  const { clientSecret, ...rest } = change;
  return {
    ...mergePatch<ProviderSpec>(ChangeBody, before, rest),
    hasClientSecret: clientSecret === undefined ? before.hasClientSecret : clientSecret !== null,
  };
}

/** Mapping a claim to a role controls the members of the role; creating users at login requires the privilege to create users. */
async function checkSpec(spec: ProviderSpec, id: string | undefined, context: Context): Promise<void> {
  const fault = context.identityProviders.fault(spec, id);
  if (fault) throw invalidParameter(fault.pointer, 'provider', fault.message);
  if (spec.algorithms.some((name) => name.startsWith('HS')) && !spec.hasClientSecret)
    throw invalidParameter('/clientSecret', 'required', 'is required for the HS* algorithms');
  if (spec.createUsers) await requireOnCollection('create', 'users', context);
  for (const role of new Set(Object.values(spec.roleMapping)))
    await requirePrivilege('grant', [segment('roles', role)], context);
  for (const [claim, role] of Object.entries(spec.roleMapping))
    if (!context.directory.roleNamed(role))
      throw invalidParameter(
        `/roleMapping/${claim}`,
        'exists',
        `refers to a role that does not exist: ${JSON.stringify(role)}`,
      );
}

const defaultSpec: ProviderSpec = {
  issuer: '',
  audiences: [],
  algorithms: ['RS256'],
  userClaim: 'sub',
  roleMapping: {},
  createUsers: false,
  disabled: false,
  hasClientSecret: false,
};

export const identityProviders = implement(identityProvidersApi, {
  list: commonHandlers.list,
  get: commonHandlers.get,
  create: async ({ body, ifExists }, context) => {
    const { name, owner, clientSecret, ...change } = body;
    const existing = await context.catalog.find([segment('identity_providers', name)]);
    const spec = specOf(defaultSpec, { ...change, clientSecret });
    if (!existing) await checkSpec(spec, undefined, context);
    const { object, created: isNew } = await context.catalog.create({
      parent: null,
      category: 'identity_providers',
      name,
      spec,
      owner: ownerId(owner, context),
      principal: context.call.actor,
      ifExists,
      inTransaction: (tx, id) => context.identityProviders.storeSecret(tx, id, clientSecret),
    });
    return commonHandlers.createdAs(object, isNew, context);
  },
  update: async ({ segments, body }, context) => {
    const [object] = await context.catalog.require(segments);
    const { owner, ...change } = body;
    const spec = specOf(object.spec, change);
    await checkSpec(spec, object.id, context);
    const changed = await context.catalog.update(object, {
      spec,
      owner: await newOwner(owner, segments, context),
      principal: context.call.actor,
      inTransaction: (tx) => context.identityProviders.storeSecret(tx, object.id, change.clientSecret),
    });
    return updated(await render(segments, [changed.object ?? object], context, toRecord));
  },
  delete: (input, context) =>
    commonHandlers.delete(input, context, (tx, id) => context.identityProviders.storeSecret(tx, id, null)),
  search: findByName(identityProvidersApi, toRecord),
});
