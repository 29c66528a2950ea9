// All categories, in the order in which documents list them.
import { taskResults } from '../api/tasks/task_types.ts';
import type { Category } from '../standard/endpoint.ts';
import type { OpenApiInfo } from '../standard/openapi/document.ts';
import { backends } from './compute/backends.ts';
import { servers } from './compute/servers.ts';
import { warehouses } from './compute/warehouses.ts';
import { auditEvents } from './identity/audit_events.ts';
import { roleGrants, userGrants } from './identity/grants.ts';
import { identityProviders } from './identity/identity_providers.ts';
import { roles } from './identity/roles.ts';
import { tokens } from './identity/tokens.ts';
import { users } from './identity/users.ts';
import { catalogs } from './namespaces/catalogs.ts';
import { databases } from './namespaces/databases.ts';
import { views } from './namespaces/views.ts';
import { queries } from './queries/queries.ts';
import type { Context } from './records/handler_context.ts';
import { drafts } from './saved_queries/drafts.ts';
import { savedQueries } from './saved_queries/saved_queries.ts';
import { draftVersions, savedQueryVersions } from './saved_queries/versions.ts';
import { columns } from './tables/columns.ts';
import { replicas } from './tables/replicas.ts';
import { rowsCategory } from './tables/rows.ts';
import { tables } from './tables/tables.ts';
import { tablets } from './tables/tablets.ts';
import { pages } from './tasks/pages.ts';
import { schedules } from './tasks/schedules.ts';
import { tasks } from './tasks/tasks.ts';
import { serverBackups } from './transfer/server_backups.ts';
import { uploads } from './transfer/uploads.ts';

/** `rowsBodyBytesMax`: the maximum size of the body of an insert. */
export function categoriesWith(limits: { readonly rowsBodyBytesMax: number }): readonly Category<Context>[] {
  return [
    catalogs,
    databases,
    tables,
    columns,
    rowsCategory(limits),
    tablets,
    replicas,
    views,
    warehouses,
    backends,
    servers,
    queries,
    tasks,
    pages,
    schedules,
    drafts,
    draftVersions,
    savedQueries,
    savedQueryVersions,
    uploads,
    users,
    tokens,
    userGrants,
    roles,
    roleGrants,
    identityProviders,
    serverBackups,
    auditEvents,
  ];
}

/** The metadata of the API in the OpenAPI document. `release`: the version of the software. */
export function apiInfo(release: string): OpenApiInfo {
  return {
    title: 'Tabularium',
    description:
      'An analytical data warehouse driven entirely through one consistent REST API. Every request accepts `x-service-read-after` of an earlier response.',
    release,
    version: 'v2',
    tasks: {
      category: tasks,
      results: taskResults,
      links: {
        showTask: { operationId: 'tasks.get', parameter: 'taskId' },
        cancelTask: { operationId: 'tasks.cancel', parameter: 'taskId' },
      },
    },
  };
}
