// Creates what must exist from the first start on: the default warehouse and the default catalog; also creates users of identity
// providers at their first login.

import type { VerifiedToken } from '../../access/authentication/oidc.ts';
import type { User as KnownUser } from '../../access/authorization/directory_types.ts';
import { defaultCatalogName, defaultWarehouseName } from '../../api/namespaces/catalogs.ts';
import { nameFault } from '../../model/names.ts';
import { systemActor } from '../../model/principal.ts';
import { principalNameFault } from '../../model/principal_names.ts';
import type { CatalogSpec } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import { ensureBackends, warehouseSpec } from '../compute/warehouses.ts';
import type { Services } from '../records/handler_context.ts';

/** Starts no engine. */
export async function bootstrap(services: Services, { withCatalog }: { readonly withCatalog: boolean }): Promise<void> {
  const { catalog, warehouses } = services;
  const [engine = ''] = warehouses.engineNames();
  const make = { parent: null, principal: systemActor, owner: 'root', ifExists: 'return' } as const;
  if ((await catalog.count(null, 'warehouses')) === 0)
    await catalog.create({
      ...make,
      category: 'warehouses',
      name: defaultWarehouseName,
      spec: warehouseSpec(engine, services),
    });
  for (const warehouse of await catalog.list(null, 'warehouses', { limit: 1000 }))
    await ensureBackends(warehouse, services, systemActor);
  if (!withCatalog || (await catalog.find([{ category: 'catalogs', name: defaultCatalogName }]))) return;
  await catalog.create({
    ...make,
    category: 'catalogs',
    name: defaultCatalogName,
    spec: { warehouse: defaultWarehouseName } satisfies CatalogSpec,
  });
}

/** The user of a subject at its first login; undefined if its provider may not create users, or if the name is taken. */
export async function userOfVisitor(
  token: VerifiedToken,
  { catalog, directory, identityProviders }: Pick<Services, 'catalog' | 'directory' | 'identityProviders'>,
): Promise<KnownUser | undefined> {
  const { providerId, subject, userName: name } = token;
  if (name === undefined || !identityProviders.specOf(providerId)?.createUsers) return undefined;
  // A name proves no identity: the login must not become an existing user.
  if ((nameFault(name) ?? principalNameFault(name)) !== undefined || name.includes(':')) return undefined;
  try {
    await catalog.create({
      parent: null,
      category: 'users',
      name,
      spec: { identity: { providerId, subject } },
      owner: 'root',
      principal: { ...systemActor, action: 'users.visit' },
      ifExists: 'fail',
    });
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'OBJECT_ALREADY_EXISTS') throw error;
  }
  return directory.userOfIdentity(providerId, subject);
}
