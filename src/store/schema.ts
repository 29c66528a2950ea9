// The tables of the metadata store as Kysely sees them. How they are made is migrations.ts; what the rows mean belongs to
// catalog/, tasks/ and query/. Times are integer milliseconds since 1970, JSON is text, truth is 0 or 1: alike in every dialect.

export type ObjectState = 'creating' | 'ready' | 'altering' | 'dropping';
export type IntentVerb = 'create' | 'update' | 'drop';
export type TaskState = 'pending' | 'running' | 'cancelling' | 'succeeded' | 'failed' | 'cancelled';

export interface ObjectsTable {
  id: string;
  category: string;
  parent_id: string | null;
  name: string;
  folded_name: string;
  state: ObjectState;
  spec: string;
  /** The spec's comment in lower case, kept apart so that it can be searched without reading the spec. */
  folded_comment: string | null;
  owner: string;
  version: number;
  created_at: number;
  created_by: string;
  updated_at: number;
  updated_by: string;
}

/** A change that was begun and not yet ended. The row goes in the transaction that ends it. */
export interface IntentsTable {
  id: string;
  object_id: string;
  verb: IntentVerb;
  undoing: number;
  warehouse: string;
  change: string;
  undo: string | null;
  /** For an update: what the object's row becomes (catalog/intents.ts). */
  next: string | null;
  task_id: string | null;
  principal: string;
  created_at: number;
  attempts: number;
  last_error: string | null;
}

/** Steps that no intent needs any more, until the engine was told to forget them. */
export interface SpentStepsTable {
  step: string;
  warehouse: string;
  catalog_id: string;
  /** Whose change it was: a task that is run again after a crash finds here that its work is done. */
  object_id: string;
  task_id: string | null;
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
}

export interface TableStatisticsTable {
  object_id: string;
  row_count: number;
  data_bytes: number;
  as_of: number;
}

export interface SettingsTable {
  key: string;
  value: string;
}

export interface Schema {
  objects: ObjectsTable;
  intents: IntentsTable;
  spent_steps: SpentStepsTable;
  tasks: TasksTable;
  queries: QueriesTable;
  table_statistics: TableStatisticsTable;
  settings: SettingsTable;
}
