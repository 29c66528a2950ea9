// Every category there is, in the order in which documents list them.
import type { Category } from '../standard/endpoint.ts';
import type { OpenApiInfo } from '../standard/openapi.ts';
import { auditEvents } from './audit_events.ts';
import { backends } from './backends.ts';
import { catalogs } from './catalogs.ts';
import { columns } from './columns.ts';
import type { Context } from './context.ts';
import { databases } from './databases.ts';
import { grantsIn } from './grants.ts';
import { identityProviders } from './identity_providers.ts';
import { pages } from './pages.ts';
import { queries } from './queries.ts';
import { replicas } from './replicas.ts';
import { roles } from './roles.ts';
import { rowsCategory } from './rows.ts';
import { schedules } from './schedules.ts';
import { serverBackups } from './server_backups.ts';
import { tables } from './tables.ts';
import { tablets } from './tablets.ts';
import { tasks } from './tasks.ts';
import { tokens } from './tokens.ts';
import { uploads } from './uploads.ts';
import { users } from './users.ts';
import { views } from './views.ts';
import { warehouses } from './warehouses.ts';

/** `rowsBodyBytesMax`: the largest body of an insert. */
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
    queries,
    tasks,
    pages,
    schedules,
    uploads,
    users,
    tokens,
    grantsIn('users'),
    roles,
    grantsIn('roles'),
    identityProviders,
    serverBackups,
    auditEvents,
  ];
}

/** What the OpenAPI document says of the API as a whole. `release`: the version of the software. */
export function apiInfo(release: string): OpenApiInfo {
  return {
    title: 'Tabularium',
    description: 'An analytical data warehouse driven entirely through one consistent REST API.',
    release,
    version: 'v2',
  };
}
