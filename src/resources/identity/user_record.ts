// The record of a user, its spec as derived from a request, and who may change it. See users.ts for the endpoints.

import { rootUserId, type UserSpec } from '../../access/authorization/directory_types.ts';
import type { PropertiesPatch } from '../../api/fields.ts';
import { Identity } from '../../api/identity/user_fields.ts';
import type { usersApi } from '../../api/identity/users.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import { mergePatch, type PatchOf } from '../../standard/schema/merge_patch.ts';
import { type Static, Type } from '../../standard/type.ts';
import { defined, describe, shownDescription } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';
import { ownerName, requirePrivilege } from '../records/permissions.ts';
import { enabledStateOf } from '../records/states.ts';

export type User = CatalogObject<UserSpec>;

export const shownUser: RenderOf<typeof usersApi> = async ([object], uri, context) => {
  const { spec, name, id } = object;
  const { directory } = context;
  return {
    name,
    ...shownDescription(spec),
    disabled: spec.disabled ?? false,
    hasPassword: spec.passwordHash !== undefined,
    identity: (await shownIdentity(spec, context)) ?? null,
    roles: [...directory.rolesOf(id)].flatMap((roleId) => directory.roles.get(roleId)?.name ?? []).sort(),
    ...enabledStateOf(spec.disabled),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

interface SpecChange {
  readonly comment?: string | null;
  readonly properties?: PropertiesPatch | null;
  readonly disabled?: boolean;
  readonly password?: string | null;
  readonly identity?: PatchOf<Static<typeof Identity>> | null;
}

const identified = Type.Object({ identity: Type.Optional(Identity) });

/** With the name of its provider. */
async function shownIdentity({ identity }: UserSpec, context: Context): Promise<Static<typeof Identity> | undefined> {
  const provider = identity && (await context.catalog.byId(identity.providerId));
  return provider && { provider: provider.name, subject: identity.subject };
}

export async function specOf(before: UserSpec, change: SpecChange, name: string, context: Context): Promise<UserSpec> {
  const { comment, properties, disabled, password, identity } = change;
  const {
    passwordHash,
    identity: identityBefore,
    ...rest
  } = describe<UserSpec>(before, defined({ comment, properties }));
  const unchanged = { ...rest, ...defined({ disabled }) };
  const hash =
    password === undefined ? passwordHash : password === null ? undefined : await hashOf(password, name, context);
  const who = identity === undefined ? identityBefore : await changedIdentity(before, identity, context);
  return { ...unchanged, ...defined({ passwordHash: hash, identity: who }) };
}

export async function hashOf(password: string, name: string, context: Context): Promise<string> {
  const fault = context.passwords.fault(password, name);
  if (fault !== undefined) throw invalidParameter('/password', 'password', fault);
  return context.passwords.hash(password);
}

async function changedIdentity(before: UserSpec, change: SpecChange['identity'], context: Context) {
  const shown = defined({ identity: await shownIdentity(before, context) });
  const { identity } = mergePatch<Static<typeof identified>>(identified, shown, { identity: change });
  return identity && identityOf(identity, context);
}

async function identityOf({ provider, subject }: Static<typeof Identity>, context: Context) {
  const [object] = (await context.catalog.find([segment('identity_providers', provider)])) ?? [];
  if (!object)
    throw invalidParameter(
      '/identity/provider',
      'exists',
      `refers to an identity provider that does not exist: ${JSON.stringify(provider)}`,
    );
  return { providerId: object.id, subject };
}

/** A subject of an identity provider belongs to one user. */
export function requireFreeIdentity(spec: UserSpec, userId: string | undefined, context: Context): void {
  const { identity } = spec;
  const other = identity && context.directory.userOfIdentity(identity.providerId, identity.subject);
  if (other && other.id !== userId) throw invalidParameter('/identity', 'unique', 'already belongs to another user');
}

/** Only the first user can change itself; it cannot be renamed or disabled. */
export function protectRoot(object: CatalogObject, context: Context, what: string): void {
  if (object.id !== rootUserId) return;
  throw new Failure(
    'OBJECT_PROTECTED',
    `the user ${ownerName({ ...object, owner: object.id }, context)} cannot be ${what}`,
  );
}

export async function requireOwnUser(object: CatalogObject, context: Context): Promise<void> {
  if (object.id === rootUserId && context.call.principal.id !== rootUserId)
    throw new Failure('FORBIDDEN', 'only root can change the user root');
  // Whoever can set a user's password can log in as that user.
  await requirePrivilege('own', [segment('users', object.name)], context);
}

export async function setSpec(object: User, spec: UserSpec, context: Context, more: object = {}) {
  const changed = await context.catalog.update(object, { spec, principal: context.call.actor, ...more });
  return changed.object ?? object;
}
