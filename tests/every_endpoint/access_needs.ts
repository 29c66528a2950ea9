// What the tests of access know about endpoints beyond their declarations, each entry with its reason: further required privileges,
// the object of a permission on a `target`, and endpoints that answer everybody.
import type { Operation } from '../../src/standard/openapi/operations.ts';
import type { GrantedPrivilege } from '../access/people.ts';
import type { Params } from './operation_call.ts';

export interface ExtraNeed {
  readonly why: string;
  /** `warehouse`: that of the catalog `default`. */
  readonly grant: (params: Params, operation: Operation, warehouse: string) => GrantedPrivilege;
}

const warehouse: ExtraNeed = {
  why: 'it runs in that warehouse',
  grant: (_params, _operation, name) => ['use', `/warehouses/${encodeURIComponent(name)}`],
};
const usualWarehouse: ExtraNeed = { why: 'its data is stored there', grant: () => ['use', '/warehouses/default'] };
const readsItself: ExtraNeed = {
  why: 'which rows change is read in the table',
  grant: ({ catalog, database, table }) => [
    'read',
    `/catalogs/${encodeURIComponent(catalog as string)}/databases/${encodeURIComponent(database as string)}/tables/${encodeURIComponent(table as string)}`,
  ],
};
const makesThere: ExtraNeed = {
  why: 'it makes a table there',
  grant: ({ catalog, database }) => [
    'create',
    `/catalogs/${encodeURIComponent(catalog as string)}/databases/${encodeURIComponent(database as string)}`,
  ],
};
const dropped = { why: 'who may drop a thing may bring it back' };
const seesRoot: ExtraNeed = { why: 'the body names that user', grant: () => ['read', '/users/root'] };
const seesGrantee: ExtraNeed = {
  why: 'a caller that may not see the grantee must not learn whether it exists',
  grant: (params, { category }) => {
    const name = params[category.parent === 'users' ? 'user' : 'role'] as string;
    return ['read', `/${category.parent}/${encodeURIComponent(name)}`];
  },
};

/** By endpoint. The tests check that each is required. */
export const extraNeeds: Readonly<Record<string, readonly ExtraNeed[]>> = {
  'catalogs.create': [usualWarehouse],
  'catalogs.move': [
    { ...warehouse, why: 'its data is copied from that warehouse' },
    {
      why: 'its data is stored there',
      grant: ({ warehouseName }) => ['use', `/warehouses/${encodeURIComponent(warehouseName as string)}`],
    },
  ],
  'catalogs.query': [warehouse],
  'catalogs.explain': [warehouse],
  'databases.query': [warehouse],
  'databases.explain': [warehouse],
  'catalogs.profile': [warehouse],
  'databases.profile': [warehouse],
  'queries.explain': [warehouse],
  'catalogs.backup': [warehouse],
  'catalogs.check': [warehouse],
  'databases.backup': [warehouse],
  'catalogs.restore': [usualWarehouse],
  'databases.restore': [{ ...warehouse, why: 'its data is stored there' }],
  'catalogs.export': [warehouse],
  'databases.export': [warehouse],
  'tables.export_table': [warehouse],
  'rows.list': [warehouse],
  'rows.create': [warehouse],
  'tables.update_rows': [warehouse, readsItself],
  'tables.delete_rows': [warehouse, readsItself],
  'tables.insert_select': [warehouse],
  'tables.optimize': [warehouse],
  'tables.checksum': [warehouse],
  'databases.load': [warehouse],
  'tables.load': [warehouse],
  'tables.copy_definition': [makesThere],
  'tables.clone': [makesThere, warehouse],
  'views.create': [warehouse],
  'catalogs.undrop': [{ ...dropped, grant: () => ['drop', '/catalogs'] }],
  'databases.undrop': [
    { ...dropped, grant: ({ catalog }) => ['drop', `/catalogs/${encodeURIComponent(catalog as string)}`] },
  ],
  'tables.undrop': [
    {
      ...dropped,
      grant: ({ catalog, database }) => [
        'drop',
        `/catalogs/${encodeURIComponent(catalog as string)}/databases/${encodeURIComponent(database as string)}`,
      ],
    },
  ],
  'views.undrop': [
    {
      ...dropped,
      grant: ({ catalog, database }) => [
        'drop',
        `/catalogs/${encodeURIComponent(catalog as string)}/databases/${encodeURIComponent(database as string)}`,
      ],
    },
    { ...warehouse, why: 'its query is analyzed again there' },
  ],
  'tokens.create': [{ ...usualWarehouse, why: 'nobody confines a token to what he may not do himself' }],
  'grants.create': [{ why: 'one grants what one has', grant: () => ['read', '/warehouses'] }, seesGrantee],
  'grants.delete': [{ why: 'one revokes what one has', grant: () => ['use', '/warehouses'] }, seesGrantee],
  'roles.update': [
    {
      why: 'with members: they may do what the role may',
      grant: ({ role }) => ['grant', `/roles/${encodeURIComponent(role as string)}`],
    },
    seesRoot,
  ],
  'roles.add_members': [seesRoot],
};

/** The object of the permission of endpoints with a `target`, by category. */
export const targets: Readonly<Record<string, string>> = {
  tasks: 'tasks',
  pages: 'tasks',
  queries: 'queries',
  uploads: 'uploads',
  grants: 'warehouses',
};

/** Categories whose objects belong to their submitter, who needs no grant on them. */
export const submitted: readonly string[] = ['tasks', 'pages', 'queries', 'uploads'];

const listsOwn = 'a collection at the top is no secret; it shows what the caller may read';
/** Endpoints that answer callers without any grant, with the reason. */
export const openToAll: Readonly<Record<string, string>> = {
  'catalogs.list': listsOwn,
  'catalogs.search': listsOwn,
  'catalogs.browse': listsOwn,
  'warehouses.list': listsOwn,
  'warehouses.search': listsOwn,
  'queries.list': listsOwn,
  'queries.search': listsOwn,
  'tasks.list': listsOwn,
  'tasks.search': listsOwn,
  'uploads.list': listsOwn,
  'uploads.search': listsOwn,
  'users.list': listsOwn,
  'users.search': listsOwn,
  'users.identify': 'everybody may know who they are',
  'users.search_grants': 'it shows the grants of those users and roles that the caller may read',
  'roles.list': listsOwn,
  'roles.search': listsOwn,
  'identity_providers.list': listsOwn,
  'identity_providers.search': listsOwn,
  'saved_queries.list': listsOwn,
  'saved_queries.search': listsOwn,
  'schedules.list': listsOwn,
  'schedules.search': listsOwn,
  'server_backups.list': listsOwn,
  'server_backups.search': listsOwn,
};

/** The categories that grants can be on; for objects of others, the grant is on their container. */
export const grantable: readonly string[] = [
  'catalogs',
  'databases',
  'tables',
  'views',
  'warehouses',
  'backends',
  'users',
  'roles',
  'identity_providers',
  'schedules',
  'saved_queries',
  'server_backups',
];

/** The codes of endpoints that refuse a new owner for a reason other than a missing privilege. */
export const refusedToNewOwner: Readonly<Record<string, string>> = {
  // Its action runs with the owner's privileges, so a new owner has to confirm it.
  'schedules.run': 'SCHEDULE_NOT_RUNNABLE',
};
