// Every declared category, in the order in which documents list them. The client is typed by this list.
import { backendsApi } from './compute/backends.ts';
import { warehousesApi } from './compute/warehouses.ts';
import { auditEventsApi } from './identity/audit_events.ts';
import { roleGrantsApi, userGrantsApi } from './identity/grants.ts';
import { identityProvidersApi } from './identity/identity_providers.ts';
import { rolesApi } from './identity/roles.ts';
import { tokensApi } from './identity/tokens.ts';
import { usersApi } from './identity/users.ts';
import { catalogsApi } from './namespaces/catalogs.ts';
import { databasesApi } from './namespaces/databases.ts';
import { viewsApi } from './namespaces/views.ts';
import { queriesApi } from './queries/queries.ts';
import { columnsApi } from './tables/columns.ts';
import { replicasApi } from './tables/replicas.ts';
import { rowsApi } from './tables/rows.ts';
import { tablesApi } from './tables/tables.ts';
import { tabletsApi } from './tables/tablets.ts';
import { pagesApi } from './tasks/pages.ts';
import { schedulesApi } from './tasks/schedules.ts';
import { tasksApi } from './tasks/tasks.ts';
import { serverBackupsApi } from './transfer/server_backups.ts';
import { uploadsApi } from './transfer/uploads.ts';

export const categoriesApi = [
  catalogsApi,
  databasesApi,
  tablesApi,
  columnsApi,
  rowsApi,
  tabletsApi,
  replicasApi,
  viewsApi,
  warehousesApi,
  backendsApi,
  queriesApi,
  tasksApi,
  pagesApi,
  schedulesApi,
  uploadsApi,
  usersApi,
  tokensApi,
  userGrantsApi,
  rolesApi,
  roleGrantsApi,
  identityProvidersApi,
  serverBackupsApi,
  auditEventsApi,
] as const;
