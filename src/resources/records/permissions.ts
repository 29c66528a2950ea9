// Checks of handlers in addition to the permission of their endpoint: further privileges, owners and users by name.
import { globalScope } from '../../access/authorization/grant_scopes.ts';
import type { CatalogObject, ObjectPath } from '../../catalog/object.ts';
import type { Engine } from '../../engines/port/engine.ts';
import type { Privilege } from '../../model/privileges.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment } from '../../standard/paths.ts';
import type { Context } from './handler_context.ts';

type Caller = Pick<Context, 'access' | 'call'>;

/** Requires a privilege beyond the permission of the endpoint. Throws FORBIDDEN. */
export async function requirePrivilege(privilege: Privilege, path: ObjectPath, context: Caller): Promise<void> {
  const category = path[0]?.category ?? globalScope;
  await context.access.authorizer.require(context.call.principal, privilege, { category, path });
}

/** The same for a whole top-level collection. */
export async function requireOnCollection(privilege: Privilege, category: string, context: Caller): Promise<void> {
  await context.access.authorizer.require(context.call.principal, privilege, { category, path: [] });
}

/** For what runs in a warehouse. Throws FORBIDDEN. */
export async function requireUse(warehouse: string, { access, call }: Caller): Promise<void> {
  await access.authorizer.requireUse(call.principal, warehouse);
}

/** Throws FORBIDDEN, and INVALID_PARAMETER if there is no such warehouse. */
export async function requireWarehouse(name: string, context: Caller & Pick<Context, 'catalog'>): Promise<void> {
  await requireUse(name, context);
  if (!(await context.catalog.find([segment('warehouses', name)])))
    throw invalidParameter(
      '/warehouse',
      'exists',
      `refers to a warehouse that does not exist: ${JSON.stringify(name)}`,
    );
}

/** Throws INVALID_NAME for a name that the engine of the warehouse reserves. */
export async function requireUnreserved(
  category: Parameters<Engine['reservedName']>[0],
  name: string,
  warehouse: string,
  { warehouses }: Pick<Context, 'warehouses'>,
): Promise<void> {
  const fault = (await warehouses.engineOf(warehouse)).reservedName(category, name);
  if (fault !== undefined) throw new Failure('INVALID_NAME', fault, { name });
}

/** The current name of the user that owns an object. */
export function ownerName(object: CatalogObject, { directory }: Pick<Context, 'directory'>): string {
  return directory.nameOf(object.owner);
}

/** The user that a body names. A user that the caller may not see is treated like one that does not exist. */
export function userNamed(name: string, pointer: string, context: Caller): string {
  const { principal } = context.call;
  const user = context.access.directory.userNamed(name);
  const seen =
    user &&
    (user.id === principal.id ||
      context.access.authorizer.isAllowedOn(principal, 'read', 'users', [{ id: user.id, owner: '' }]));
  if (!seen)
    throw invalidParameter(
      pointer,
      'exists',
      `refers to a user that does not exist or that the caller may not see: ${JSON.stringify(name)}`,
    );
  return user.id;
}

/** The id of the user that will own a new object. Throws INVALID_PARAMETER. */
export function ownerId(name: string | undefined, context: Caller): string | undefined {
  return name === undefined ? undefined : userNamed(name, '/owner', context);
}

/** As `ownerId`, for an existing object: only its owner may give it away. */
export async function newOwner(
  name: string | undefined,
  path: ObjectPath,
  context: Caller,
): Promise<string | undefined> {
  if (name !== undefined) await requirePrivilege('own', path, context);
  return ownerId(name, context);
}
