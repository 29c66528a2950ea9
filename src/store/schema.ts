// Kysely types of the tables of the metadata store. See migrations/ for their creation; catalog/, tasks/, query/ and access/ own the rows.
// In every dialect, times are integer milliseconds since 1970, JSON is text, and booleans are 0 or 1.
import type { Generated } from 'kysely';

/**
 * `dropped`: retained for a while with its contents, until it is `restoring` or `purging`. `blocked`: a change was left open, and recovery
 * no longer retries it.
 */
export type ObjectState =
  | 'creating'
  | 'ready'
  | 'altering'
  | 'blocked'
  | 'dropping'
  | 'dropped'
  | 'restoring'
  | 'purging';
export type IntentVerb = 'create' | 'update' | 'drop' | 'undrop' | 'purge';
export type TaskState = 'pending' | 'running' | 'cancelling' | 'succeeded' | 'failed' | 'cancelled';

export interface ObjectsTable {
  id: string;
  category: string;
  parent_id: string | null;
  name: string;
  folded_name: string;
  state: ObjectState;
  /** Why the object is `blocked`; meaningless in other states. */
  state_reason: string | null;
  spec: string;
  /** The comment of the spec in lower case, in its own column so that it can be searched without reading the spec. */
  folded_comment: string | null;
  owner: string;
  version: number;
  created_at: number;
  created_by: string;
  updated_at: number;
  updated_by: string;
}

/** A change that has begun and not ended. The transaction that ends it deletes the row. */
export interface IntentsTable {
  id: string;
  object_id: string;
  verb: IntentVerb;
  undoing: number;
  warehouse: string;
  change: string;
  undo: string | null;
  /** The new values of the object's row, as JSON. See NextRow in catalog/changes/intents.ts. */
  next: string | null;
  task_id: string | null;
  principal: string;
  /** The actor that began it, for the audit trail (access/audit/audit_log.ts), as JSON. */
  actor: string | null;
  created_at: number;
  attempts: number;
  last_error: string | null;
  /** How often the engine ended, or had to be ended, during an attempt to recover it. */
  engine_deaths: number;
  /** The process that works on it (leases.ts), or that was the last to run its task; null: none. */
  leased_by: string | null;
  /** When another process may take it over. */
  lease_until: number | null;
}

/** Dropped objects that can be restored. Their contents at the time of the drop have no rows of their own. */
export interface DroppedObjectsTable {
  object_id: string;
  warehouse: string;
  dropped_at: number;
  dropped_by: string;
  /** When its data is deleted. */
  purge_at: number;
  /** The engine's change that does that (engines/port/changes.ts), as JSON. */
  purge: string;
}

/** A table or view that a view names; for a dropped view, as of the drop. */
export interface ViewSourcesTable {
  view_id: string;
  source_id: string;
  /** The number of references. */
  uses: number;
}

/** Steps that no intent needs any more, until the engine has forgotten them. */
export interface SpentStepsTable {
  step: string;
  warehouse: string;
  catalog_id: string;
  /** The changed object: a task that runs again after a crash finds here that its work is done. */
  object_id: string;
  task_id: string | null;
  /** Retained until then, because a keyed request may be repeated. */
  not_before: number | null;
}

/**
 * Moves of catalogs to other warehouses. The data of a move go to a catalog with an id of its own, which the catalog has from the switch on:
 * then the row says what became of the earlier id. A backup that holds the writes to a catalog has a row too, of a move to the same id.
 */
export interface CatalogMovesTable {
  task_id: string;
  catalog_id: string;
  target_id: string;
  /** JSON: what an interrupted move has done. */
  progress: string;
  /** Null: the catalog has its earlier id. */
  switched_at: number | null;
  /** How many times the servers that write to the catalog were asked for a report. */
  asks: Generated<number>;
  /** The process that asked. */
  asked_by: Generated<string | null>;
  /** 1: no server begins a write to the catalog. */
  is_held: Generated<number>;
}

/** What a server has reported of its writes to a catalog that another one moves (holds/asked_servers.ts). */
export interface MoveReportsTable {
  task_id: string;
  server_id: string;
  /** The number of the question that it answers, and those before it. */
  asks: number;
  report: string;
}

/** A load that succeeded on a table; its result as JSON. */
export interface LoadLabelsTable {
  table_id: string;
  label: string;
  task_id: string;
  result: string;
  created_at: number;
}

export interface TasksTable {
  task_id: string;
  type: string;
  state: TaskState;
  progress: number | null;
  progress_text: string | null;
  submitted_by: string;
  submitted_at: number;
  started_at: number | null;
  ended_at: number | null;
  attempt: number;
  /** A pending task is not begun before this time. */
  not_before: number;
  target: string;
  request: string;
  result: string | null;
  error: string | null;
  /** Id of the user who submitted it. */
  owner: string;
  /** The principal with whose rights it runs (model/principal.ts), as JSON. */
  principal: string;
  /** 0 high, 1 normal, 2 low. */
  priority: number;
  /** Its position in the queue of its priority (see tasks/queue.ts); null: not queued. */
  place: number | null;
  /** The number of its prerequisite tasks that have not ended. */
  waits_for: number;
  /** The ids of its prerequisite tasks, as JSON; null: none. */
  after_ids: string | null;
  /** Estimated from its progress. */
  expected_end_at: number | null;
  /** The webhook to call when it ends (see tasks/webhooks.ts), as JSON; null: none. */
  notify: string | null;
  /** When the webhook is called next; null before the task has ended and after the last call. */
  notify_at: number | null;
  /** The runner that holds its lease (tasks/leases.ts), or, after its end, the process that calls its webhook; null: none. */
  leased_by: string | null;
  /** When the lease ends, unless that runner renews it. */
  lease_until: number | null;
  /** The only server that runs it and has its result; null: any server, or the store is not shared. */
  server_id: string | null;
}

/** A task that begins only when another has succeeded. */
export interface TaskWaitsTable {
  after_id: string;
  task_id: string;
}

/** Tasks that ended, until the tasks that wait for them have been updated. */
export interface TaskEndsTable {
  task_id: string;
  state: TaskState;
}

/** When a schedule runs. */
export interface ScheduleTimesTable {
  object_id: string;
  /** The first time without a run; null: no further run. */
  next_at: number | null;
  /** When `next_at` was computed. */
  computed_at: number;
  /** The time that the last run was for. */
  last_at: number | null;
  last_task_id: string | null;
  error: string | null;
  /** The process that makes the calls of the due times (leases.ts); null: none. */
  leased_by: string | null;
  lease_until: number | null;
}

/** The contents that an object had. See catalog/object_versions.ts. */
export interface ObjectVersionsTable {
  object_id: string;
  /** The version of the object that had these contents first. */
  version: number;
  saved_at: number;
  saved_by: string;
  bytes: number;
  /** JSON */
  content: string;
}

export interface QueriesTable {
  query_id: string;
  kind: string;
  sql: string;
  state: string;
  warehouse: string;
  catalog: string;
  database: string | null;
  submitted_by: string;
  submitted_at: number;
  started_at: number | null;
  ended_at: number | null;
  elapsed_ms: number | null;
  queued_ms: number | null;
  row_count: number | null;
  result_bytes: number | null;
  error_code: string | null;
  error_message: string | null;
  task_id: string | null;
  /** Id of the user who submitted it. */
  owner: string;
  /** As reported by the engine after the statement; null if it was not requested. */
  plan: string | null;
  /** The server that runs the statement (statements_of_servers.ts); null: it has ended. */
  server_id: string | null;
}

export interface TableStatisticsTable {
  object_id: string;
  row_count: number;
  data_bytes: number;
  as_of: number;
}

/** The last recorded position of the file of a catalog. See engines/port/catalog_storage.ts. */
export interface CatalogFilesTable {
  catalog_id: string;
  identity: string;
  checkpoint: number;
  log_bytes: number;
}

export interface SettingsTable {
  key: string;
  value: string;
}

/** Role memberships. */
export interface RoleMembersTable {
  role_id: string;
  user_id: string;
}

/** A privilege of a user or role on an object and its descendants. */
export interface GrantsTable {
  /** `read-{on_id}`: unique per grantee. */
  grant_id: string;
  /** Id of a user or role. */
  grantee_id: string;
  privilege: string;
  /** The object's id, or the id of a scope that is not an object (access/authorization/grant_scopes.ts). */
  on_id: string;
  /** The object whose deletion deletes the grant. */
  object_id: string | null;
  /** Ids from the root to `on_id`, as JSON. They never change. */
  path: string;
  created_at: number;
  created_by: string;
}

/** Access tokens of users; only the digest of the secret is stored. */
export interface TokensTable {
  token_id: string;
  user_id: string;
  name: string;
  folded_name: string;
  /** SHA-256 of the secret, in hexadecimal. */
  digest: string;
  /** Its scopes, as JSON; null: all rights of its user. */
  scopes: string | null;
  /** If it was created by signing in at an identity provider, as JSON. */
  sign_in: string | null;
  expires_at: number | null;
  last_used_at: number | null;
  created_at: number;
  created_by: string;
}

/** The audit trail, a hash chain: each event has the digest of its predecessor. */
export interface AuditEventsTable {
  /** Each server has its own chain. */
  server_id: string;
  sequence: number;
  event_id: string;
  at: number;
  /** `tables.create` */
  action: string;
  /** `begun`, or the code of the response; `0` is success. */
  outcome: string;
  principal_id: string | null;
  principal: string | null;
  request_id: string | null;
  address: string | null;
  /** The URI of the request. */
  target: string | null;
  object_id: string | null;
  /** Further details as JSON, without secrets and literals of statements. */
  details: string | null;
  digest: string;
}

/** The beginning and the end of each chain of audit events. */
export interface AuditChainsTable {
  server_id: string;
  /** Events up to here were deleted after their retention time. */
  removed_sequence: number;
  removed_digest: string;
  last_sequence: number;
  last_digest: string;
  /** Keyed digest of the other columns. */
  seal: string;
}

/** Encrypted secrets that the service itself must read (access/secrets/secrets.ts). */
export interface SecretsTable {
  name: string;
  /** The key that it is encrypted with. */
  key_id: string;
  sealed: string;
}

/** Idempotency keys, by which a repeated request is recognized. */
export interface IdempotencyKeysTable {
  owner: string;
  key: string;
  key_id: string;
  fingerprint: string;
  /** `begun`, or `done` after its change. */
  state: string;
  /** The attempt that holds the key; earlier ones must not change anything. */
  attempt: string | null;
  /** The process that runs the attempt (leases.ts); null: none. */
  leased_by: string | null;
  lease_until: number | null;
  /** The id of the created or changed object, or of the query of a statement. */
  object_id: string | null;
  /** The authorizations of the attempt (model/principal.ts, Granted), as JSON. */
  granted: string | null;
  /** The stored response, if there is one. */
  status: number | null;
  location: string | null;
  etag: string | null;
  body: string | null;
  created_at: number;
}

/** Files that callers upload or download; their bytes are in the data directory (files/file_store.ts). */
export interface FilesTable {
  file_id: string;
  kind: 'upload' | 'export' | 'rejects';
  /** Id of the user who owns it. */
  owner: string;
  /** Scopes of the token that created it, as JSON; null: all rights of its user. */
  scopes: string | null;
  name: string;
  state: 'receiving' | 'ready';
  /** The announced size until the file is ready, then its size; null: not known yet. */
  bytes: number | null;
  /** Bytes that are durably on the disk. */
  received_bytes: number;
  /** Bytes that count towards its owner's quota. */
  reserved_bytes: number;
  /** In hexadecimal: the announced digest until the file is ready, then its digest; null: not known. */
  sha256: string | null;
  created_at: number;
  created_by: string;
  updated_at: number;
  expires_at: number;
  /** The task whose result includes it; deleted with the task. */
  task_id: string | null;
  /** The server that has its bytes; null: the store is not shared, or the bytes are in the bucket. */
  server_id: string | null;
  /** The key in the file store; null: in the data directory. */
  stored_as: string | null;
}

/** The sources of a stored result (query/results/result_access.ts). */
export interface ResultSourcesTable {
  task_id: string;
  /** JSON: for each table and view, the ids of its catalog, its database and itself. */
  sources: string;
  /** The key of the result in the file store; null: in the data directory. */
  stored_as: string | null;
  /** The principal for whom its rows are stored, and their bytes; both null: not known yet, or the result has files. */
  owner: string | null;
  bytes: number | null;
}

/** The feed of changes that servers on a shared store follow (changes/change_feed.ts). The newest row is never deleted. */
export interface ChangesTable {
  /** Increases in the order of the commits. */
  position: Generated<number>;
  /** The server that wrote it. */
  server_id: string;
  written_at: number;
  kind: string;
  /** Which rows changed (ChangeNotice in changes/change.ts), as JSON. */
  notice: string;
}

/** Tallies of failed logins, by address, user name, or both, and known addresses (access/authentication/failed_logins_of_servers.ts). */
export interface FailedLoginsTable {
  key: string;
  /** The fields of the tally, as JSON. */
  state: string;
  expires_at: number;
}

/** What servers on a shared store have charged to the rate limits of a principal or network (access/limits/rate_limits_of_servers.ts). */
export interface RateChargesTable {
  key: string;
  /** When nothing of it counts any more, in milliseconds since 1970. */
  full_at: number;
}

/** How many statements of a principal run or wait on each server of a shared store (access/limits/queries_of_servers.ts). */
export interface RunningQueriesTable {
  server_id: string;
  principal_id: string;
  running: number;
  /** The server has ended if it has not extended this. */
  counts_until: number;
}

/** The servers of a shared store (servers.ts). */
export interface ServersTable {
  id: string;
  /** Where the other servers reach it. */
  url: string;
  release: string;
  started_at: number;
  /** Renewed by its heartbeat; 0 after it was stopped. */
  lease_until: number;
  /** The state of its warehouses (WarehouseReports in engines/warehouses/other_servers.ts), as JSON. */
  report: string;
}

export interface Schema {
  servers: ServersTable;
  changes: ChangesTable;
  failed_logins: FailedLoginsTable;
  rate_charges: RateChargesTable;
  running_queries: RunningQueriesTable;
  result_sources: ResultSourcesTable;
  objects: ObjectsTable;
  intents: IntentsTable;
  dropped_objects: DroppedObjectsTable;
  view_sources: ViewSourcesTable;
  spent_steps: SpentStepsTable;
  catalog_moves: CatalogMovesTable;
  move_reports: MoveReportsTable;
  load_labels: LoadLabelsTable;
  tasks: TasksTable;
  task_waits: TaskWaitsTable;
  task_ends: TaskEndsTable;
  schedule_times: ScheduleTimesTable;
  object_versions: ObjectVersionsTable;
  queries: QueriesTable;
  table_statistics: TableStatisticsTable;
  catalog_files: CatalogFilesTable;
  settings: SettingsTable;
  role_members: RoleMembersTable;
  grants: GrantsTable;
  tokens: TokensTable;
  audit_events: AuditEventsTable;
  audit_chains: AuditChainsTable;
  secrets: SecretsTable;
  idempotency_keys: IdempotencyKeysTable;
  files: FilesTable;
}
