// The context that every handler receives, and how handlers become categories. No category is named here.

import type { AssembledAccess, AssembledAudit } from '../../access/assemble_access.ts';
import type { WarehousePassword } from '../../access/secrets/warehouse_password.ts';
import type { DeclaredCategory } from '../../api/declare.ts';
import type { Handlers } from '../../api/handlers.ts';
import { implementWith } from '../../api/implement.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { ObjectVersions } from '../../catalog/object_versions.ts';
import type { RecordCache } from '../../catalog/record_cache.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { FileStore } from '../../files/file_store.ts';
import type { Call } from '../../http/request_context.ts';
import type { NewTableSubmit } from '../../jobs/load_database.ts';
import type { LoadSubmit } from '../../jobs/load_table.ts';
import type { AssembledQueries } from '../../query/assemble_queries.ts';
import type { Exports } from '../../query/exports/exports.ts';
import type { AssembledLoads } from '../../query/loads/assemble_loads.ts';
import type { Category } from '../../standard/endpoint.ts';
import type { ChangeFeed } from '../../store/changes/change_feed.ts';
import type { ServerState } from '../../store/servers.ts';
import type { CheckCall } from '../../tasks/schedule.ts';
import type { Schedules } from '../../tasks/schedules.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { Webhooks } from '../../tasks/webhooks.ts';
import type { LostServers } from '../compute/lost_servers.ts';
import type { AssembledBackups } from '../transfer/assemble_backups.ts';
import { withRequiredCapabilities } from './engine_capabilities.ts';
import { withInUseErrors } from './in_use_by_views.ts';

/** The defaults of a new warehouse. */
export interface WarehouseDefaults {
  readonly threads: number;
  readonly memoryLimitBytes: number;
  readonly spillLimitBytes: number;
  readonly autoSuspendSeconds: number;
  readonly queriesMax: number;
  readonly queueMax: number;
  readonly statementTimeoutSeconds: number;
}

/** For all drafts of one user together. */
export interface DraftLimits {
  readonly principalDraftsMax: number;
  readonly principalDraftBytesMax: number;
}

export interface Services extends AssembledAccess, AssembledAudit, AssembledQueries, AssembledLoads, AssembledBackups {
  readonly changes: ChangeFeed;
  readonly catalog: Catalog;
  readonly objectVersions: ObjectVersions;
  readonly records: RecordCache;
  readonly tasks: Tasks;
  readonly schedules: Schedules;
  readonly checkCall: CheckCall;
  readonly webhooks: Webhooks;
  readonly warehouses: Warehouses;
  readonly warehousePassword: WarehousePassword;
  readonly submitNewTable: NewTableSubmit;
  readonly submitLoad: LoadSubmit;
  readonly exports: Exports;
  readonly files: FileStore;
  readonly warehouseDefaults: WarehouseDefaults;
  readonly draftLimits: DraftLimits;
  /** The servers of this API, also those that are down. */
  readonly serverStates: () => readonly ServerState[];
  /** Absent if this server alone uses the store. */
  readonly lostServers?: LostServers | undefined;
  /** How long dropped objects can be restored; 0: not at all. */
  readonly undropSeconds: number;
}

export interface Context extends Services {
  readonly call: Call;
}

/** Runs a handler that may change something; repeats it if an object that it read was changed by another request. */
function changing<T>(work: () => Promise<T>, context: Context): Promise<T> {
  const attempt = async () => {
    await context.call.authorizeAgain?.();
    await context.call.checkPrecondition?.();
    return work();
  };
  return withInUseErrors(() => context.catalog.retrying(attempt), context);
}

/** Joins a declared category and its handlers. */
export function implement<C extends DeclaredCategory>(declared: C, handlers: HandlersOf<C>): Category<Context> {
  const category = implementWith(declared, handlers, changing);
  return { ...category, endpoints: category.endpoints.map(withRequiredCapabilities) };
}

/** The handlers of a declared category. */
export type HandlersOf<C extends DeclaredCategory> = Handlers<C, Context>;
