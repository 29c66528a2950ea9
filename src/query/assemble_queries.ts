// Creates the parts that run statements, store their results and write rows.
import type { Trail } from '../access/audit/audit_log.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { IdempotencyKeys } from '../access/idempotency_keys.ts';
import type { Quotas } from '../access/limits/quotas.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { FileStore } from '../files/file_store.ts';
import type { Observe } from '../observe/observations.ts';
import type { ChangeFeed } from '../store/changes/change_feed.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Servers } from '../store/servers.ts';
import type { Store } from '../store/store.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { ResultAccess } from './results/result_access.ts';
import { ResultFiles } from './results/result_files.ts';
import { ResultQuota } from './results/result_quota.ts';
import type { ResultStore } from './results/result_store.ts';
import { TableRows } from './rows/table_rows.ts';
import { QueryHistory } from './statements/history.ts';
import { NameVisibility } from './statements/name_visibility.ts';
import { Queries } from './statements/queries.ts';
import { QuerySubmitter } from './statements/query_submission.ts';
import { StatementsOfServers } from './statements/statements_of_servers.ts';

export interface AssembleQueriesOptions {
  readonly store: Store;
  readonly catalog: Catalog;
  readonly changes: ChangeFeed;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly keys: IdempotencyKeys;
  readonly caps: Quotas;
  readonly tasks: Tasks;
  readonly results: ResultStore;
  readonly files: FileStore;
  readonly observe: Observe;
  readonly holder: LeaseHolder;
  /** Absent if this server alone uses the store. */
  readonly servers?: Servers | undefined;
  readonly spoolDirectory: string;
  readonly settings: {
    readonly pageBytesMax: number;
    readonly queryHistoryMax: number;
    readonly principalResultBytesMax: number;
    readonly taskRetentionDays: number;
  };
}

export function assembleQueries(parts: AssembleQueriesOptions) {
  const { store, catalog, authorizer, tasks, results, observe, holder, servers, settings } = parts;
  const quota = new ResultQuota(store.db, settings);
  const resultAccess = new ResultAccess({ store, catalog, authorizer, quota });
  const resultFiles = new ResultFiles(parts);
  const names = new NameVisibility(parts);
  const shared = servers && new StatementsOfServers({ store, servers, holder });
  const history = new QueryHistory({ db: store.db, entriesMax: settings.queryHistoryMax, observe, shared });
  const queries = new Queries({ ...parts, quota, names, history, pageBytesMax: settings.pageBytesMax });
  return {
    queries,
    history,
    resultAccess,
    resultFiles,
    submitter: new QuerySubmitter({
      queries,
      tasks,
      results,
      quota,
      files: resultFiles,
      access: resultAccess,
      serverId: holder.serverId,
    }),
    rows: new TableRows({ ...parts, queries }),
  };
}

export type AssembledQueries = ReturnType<typeof assembleQueries>;
