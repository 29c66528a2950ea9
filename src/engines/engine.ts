// The engine port: the interface between the warehouse and an engine. An adapter (engines/<name>/) carries out what the catalog
// decided; it makes no decisions about names, permissions or history. Every method may throw a Failure with a declared code;
// anything else it throws is a bug and becomes a 500.

import type { EngineCapability } from '../model/engine_capabilities.ts';
import type { ExpectedTable } from '../model/expected_table.ts';
import type { ColumnDefinition, TableDefinition, TableStructure, WarehouseSpec } from '../model/records.ts';
import type { TableChecksum } from '../model/table_checksum.ts';
import type { LogicalType } from '../model/types.ts';
import type { EngineEvent } from '../observe/observations.ts';
import type { AdmissionRequest } from './admission.ts';
import type { AttachReport, AttachRequest, CatalogFault, CatalogStorage, TableComparison } from './catalog_storage.ts';
import type {
  Availability,
  ClusterEngine,
  Credentials,
  DescribedBackend,
  RegisteredServers,
} from './cluster/registered_servers.ts';
import type { ReplicaNotices } from './cluster/replica_notices.ts';
import type { TableToSum } from './copies/checksum.ts';
import type { ExportedFiles, ExportInto } from './export.ts';
import type { FileLoad, FileLoadResult, InferredTable, SchemaInference } from './load.ts';
import type { CatalogRef, DatabaseRef, DefinedObject, HiddenCatalog, TableName, TableRef, ViewRef } from './refs.ts';
import type { RecentBytes } from './results/recent_blocks.ts';
import type { PartToRestore, Snapshot } from './snapshot.ts';
import type { Applied, DependentView, ParsedCreateView, RestoredView, ViewReading } from './views.ts';

export type { CatalogRef, DatabaseRef, DefinedObject, EngineEvent, HiddenCatalog, TableName, TableRef, ViewRef };

/**
 * A dropped table that can be restored. SQL cannot name it: `id` is the id of the object, `database` the name of its database when
 * it was dropped.
 */
export interface DroppedTable {
  readonly database: string;
  readonly id: string;
}
export interface DroppedTableDefinition {
  readonly id: string;
  /** The name of the table before the drop, and again after the restore. */
  readonly name: string;
  readonly definition: TableDefinition;
}

/**
 * One change of objects. Each is atomic and idempotent: when it runs again after a crash and finds its work done, it succeeds.
 * `step` is unique to the intent. Where the state alone cannot show that the work was done, the engine records the step in the same
 * transaction.
 */
export type Change =
  | { readonly kind: 'createCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'dropCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'renameCatalog'; readonly catalog: CatalogRef; readonly newName: string }
  /**
   * Detaches the catalog and retains its data. `restoreCatalog` attaches it again, possibly under another name; `dropCatalog`
   * deletes it.
   */
  | { readonly kind: 'hideCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'restoreCatalog'; readonly catalog: CatalogRef; readonly views?: readonly RestoredView[] }
  | { readonly kind: 'createDatabase'; readonly database: DatabaseRef }
  /**
   * Drops the contents too; the catalog has already decided that this is wanted. Of the dropped tables that can be restored, only
   * `hidden` are deleted.
   */
  | { readonly kind: 'dropDatabase'; readonly database: DatabaseRef; readonly hidden?: readonly DroppedTable[] }
  /** Drops its views: they are created again when the database is restored. */
  | {
      readonly kind: 'hideDatabase';
      readonly database: DatabaseRef;
      readonly tables: readonly { readonly id: string; readonly name: string }[];
    }
  | {
      readonly kind: 'restoreDatabase';
      /** Under its new name. */
      readonly database: DatabaseRef;
      /** Its name when it was dropped. */
      readonly from: string;
      readonly tables: readonly DroppedTableDefinition[];
      readonly views?: readonly RestoredView[];
    }
  | {
      readonly kind: 'renameDatabase';
      readonly database: DatabaseRef;
      readonly newName: string;
      /** Every table in the database, so that an engine that cannot rename a schema can move them. */
      readonly tables: readonly { readonly name: string; readonly definition: TableDefinition }[];
    }
  | { readonly kind: 'createTable'; readonly table: TableRef; readonly definition: TableDefinition }
  | { readonly kind: 'dropTable'; readonly table: TableRef }
  | { readonly kind: 'hideTable'; readonly table: TableRef; readonly id: string }
  | {
      readonly kind: 'restoreTable';
      /** Under its new names. */
      readonly table: TableRef;
      /** The name of its database when the table was dropped. */
      readonly from: string;
      readonly id: string;
      readonly definition: TableDefinition;
    }
  /** Deletes dropped tables for good, and the databases of these names that are empty. */
  | {
      readonly kind: 'purge';
      readonly catalog: CatalogRef;
      readonly hidden: readonly DroppedTable[];
      readonly databases: readonly string[];
    }
  | {
      readonly kind: 'renameTable';
      readonly table: TableRef;
      readonly newName: string;
      readonly definition: TableDefinition;
    }
  | { readonly kind: 'truncateTable'; readonly table: TableRef }
  | {
      readonly kind: 'alterTable';
      readonly table: TableRef;
      readonly from: TableDefinition;
      readonly to: TableDefinition;
      /** Maps the old name to the new name of each column whose data is retained under another name. */
      readonly renamedColumns: Readonly<Record<string, string>>;
      /** The caller may not read the rows: of the rows that do not fit, only the number is reported. */
      readonly hidesRows?: boolean;
      /** Views that depend on the table: if the change would break one of them, nothing is done (Failure IN_USE, BrokenViews). */
      readonly views?: readonly DependentView[];
    }
  /** `sql`: a query; unqualified names in it are resolved in the database of the view. */
  | { readonly kind: 'createView'; readonly view: ViewRef; readonly sql: string }
  | {
      readonly kind: 'replaceView';
      readonly view: ViewRef;
      readonly sql: string;
      /** See `alterTable`. */
      readonly views?: readonly DependentView[];
    }
  | { readonly kind: 'renameView'; readonly view: ViewRef; readonly newName: string; readonly sql: string }
  | { readonly kind: 'dropView'; readonly view: ViewRef };

/** How a change is carried out: instantly, or by rewriting the data of the table (which belongs in a task). */
export type ChangeCost = 'instant' | 'rewrite';

/** What a statement would do, derived from the engine's bound plan without running it. */
export interface StatementAnalysis {
  readonly kind: 'select' | 'insert' | 'update' | 'delete' | 'merge';
  /** Every table that the plan reads, including the tables under its views. Names as stored in the engine. */
  readonly reads: readonly TableName[];
  readonly writes: readonly TableName[];
  /** Every view that the plan expands, including views nested in other views. */
  readonly views: readonly TableName[];
  /** Opaque to callers: the version of the definitions that the statement was bound to. */
  readonly token: string;
}

/**
 * Thrown by `execute` if tables changed since the analysis identified by `token`, so that the statement might read or write other
 * tables than were authorized. Nothing was done; the caller analyzes and authorizes again.
 */
export class StaleAnalysis extends Error {
  override name = 'StaleAnalysis';
}

/** Positional, or named without the `$`. Values as returned by `parseJson`: JSON.rawJSON marks a number that a double cannot represent. */
export type StatementParameters = readonly unknown[] | Readonly<Record<string, unknown>>;

/** The SQL functions that return the caller. Only a statement whose text may call one of them is bound per caller. */
export const callerFunctions = ['current_role', 'current_user', 'session_user', 'user'] as const;

const callerFunctionPattern = new RegExp(String.raw`\b(?:${callerFunctions.join('|')})\b`, 'i');

/** True as well for a column, an alias or a string with such a name: only the engine's binder distinguishes them from calls. */
export const mayCallCallerFunction = (sql: string): boolean => callerFunctionPattern.test(sql);

export interface Statement {
  readonly sql: string;
  readonly parameters?: StatementParameters | undefined;
  /** Default namespace; without a database, unqualified table names do not resolve. */
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  /** The value of `current_user`. Absent if the text calls none of `callerFunctions`, and in a view definition, which has no caller yet. */
  readonly caller?: string | undefined;
}

/** A fragment of SQL in a request, and its place in the request (a JSON pointer). */
export interface SqlFragment {
  readonly text: string;
  readonly pointer: string;
}

/** A change of rows that the engine turns into one statement. Columns are columns of the table, by their exact names. */
export type TableWrite =
  | {
      readonly kind: 'update';
      readonly table: TableRef;
      readonly set: readonly { readonly column: string; readonly value: SqlFragment }[];
      readonly where: SqlFragment;
    }
  | { readonly kind: 'delete'; readonly table: TableRef; readonly where: SqlFragment }
  | {
      readonly kind: 'insert';
      readonly table: TableRef;
      readonly columns?: readonly string[] | undefined;
      readonly query: SqlFragment;
    };

export interface BuiltStatement {
  readonly sql: string;
  /** The line of the statement at which each fragment begins. */
  readonly parts: readonly { readonly pointer: string; readonly line: number }[];
}

/** Called from time to time with the fraction of the work that is done, from 0 to 1. An engine that does not know never calls it. */
export type ReportProgress = (fraction: number) => void;

export interface WorkOptions {
  readonly signal: AbortSignal;
  readonly progress?: ReportProgress | undefined;
}

export interface StepOptions {
  readonly step: string;
  /**
   * The step of the change that this one undoes. A call with that step may still be under way, sent by a server that has lost the intent:
   * if it arrives after the undo, it does nothing. An engine whose processes end with their server receives no such call.
   */
  readonly undoes?: string | undefined;
}

/** A page of a result of which later pages are still computed. */
export interface PageReady {
  readonly columns: readonly ResultColumn[];
  /** The file with the rows, which is complete up to `end`, or has at least those before what is in `recent`. */
  readonly path: string;
  /** The rows that are in memory of this process; absent: all are in the file. */
  readonly recent?: RecentBytes;
  /** Where the page ends. It begins where the previous one ends. */
  readonly end: number;
  /** The number of the row after the page: how many rows this page and those before it have. */
  readonly endRow: number;
}

export interface ExecuteOptions extends WorkOptions {
  /** The analysis by which the statement was authorized: StaleAnalysis is thrown if definitions changed since. */
  readonly analysis: StatementAnalysis;
  /** The result is truncated after this many rows (the statement itself is not changed). */
  readonly rowsMax?: number | undefined;
  /** `string`: 64-bit and wider integers and decimals as JSON strings (rest-standard B7). */
  readonly numbers: 'number' | 'string';
  readonly timeoutMs: number;
  /**
   * Absolute path without extension in the spool of this server, to which the adapter writes: a result larger than one page is written to
   * `<resultPath>.rows`.
   */
  readonly resultPath: string;
  readonly pageBytesMax: number;
  /**
   * For a statement that writes: a unique key. A second run with the same step does nothing and returns `repeated`. Read when the
   * statement is sent to the engine.
   */
  readonly step?: string | undefined;
  /** The rows of a select are written only to files in `<resultPath>.files/`; `rows` is empty then. */
  readonly into?: ExportInto | undefined;
  /** Runs a select to its end with the engine's profiler: its rows are discarded, and `profile` contains the timings. */
  readonly profile?: boolean | undefined;
  /** Called for each page of a select but the last one. After an error, pages reported before it are void. */
  readonly onPage?: ((page: PageReady) => void) | undefined;
  /** If the statement takes at least this long, the result includes its plan. */
  readonly planAfterMs?: number | undefined;
}

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** `logical`: the logical type that can represent every value of the column; absent if there is none. */
export interface DescribedColumn extends ResultColumn {
  readonly logical?: LogicalType;
}

export interface StatementResult {
  readonly columns: readonly ResultColumn[];
  /** Rows returned by a select, or rows changed by DML. */
  readonly rowCount: number;
  /**
   * The rows as JSON arrays joined by `,\n`, ready for the wire. One page: the text itself. More: a file, and the byte offset and the row
   * at which each page begins (the last entries are the length of the file and the number of rows). Pages end with `,\n` in the file,
   * except the last.
   */
  readonly rows:
    | { readonly kind: 'text'; readonly text: string }
    | {
        readonly kind: 'file';
        readonly path: string;
        readonly offsets: readonly number[];
        readonly firstRows: readonly number[];
      };
  readonly truncated: boolean;
  readonly repeated?: boolean;
  /** The rows come from the RETURNING clause of a statement that writes. */
  readonly returned?: boolean;
  /** Present if an export was requested. */
  readonly files?: ExportedFiles;
  /** The engine's profile as JSON; present if requested. */
  readonly profile?: object;
  /** In the format of `explain`. */
  readonly plan?: string;
}

/** A `RowsBatch` in a file of this server's spool, as written by v8.serialize, so that an engine on this machine can read it itself. */
export interface StoredRows {
  readonly file: string;
  readonly rowCount: number;
}

export interface RowsBatch {
  /** The columns that the rows provide; the other columns of the table get their defaults. */
  readonly columns: readonly ColumnDefinition[];
  /** JSON text: an array of arrays, in the order of `columns`, already validated and normalized (query/rows/row_validation.ts). */
  readonly json: string;
  readonly rowCount: number;
  /**
   * Present if only some rows provide a column that has a default: the rows that do not (they hold null there). `column` is an
   * index into `columns`.
   */
  readonly omitted?: readonly { readonly column: number; readonly rows: readonly number[] }[];
}

/** A unique key that makes an insert happen only once. */
export interface InsertStep {
  readonly step: string;
  readonly rowCount: number;
}

export interface StepsPage {
  readonly catalog: CatalogRef;
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface CopiedSteps {
  readonly catalog: CatalogRef;
  readonly steps: readonly InsertStep[];
}

export interface RowsPage {
  readonly columns: readonly string[];
  /** The position of the last row of the previous page. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** A restriction that the operating system enforces on the processes of an engine. */
export interface ConfinementMeasure {
  readonly measure: 'namespaces' | 'landlock' | 'seccomp';
  readonly active: boolean;
  /** Why it is not active. */
  readonly reason: string | null;
}

/** A process or server that does the work of a warehouse. */
export interface Backend {
  readonly name: string;
  /** The URL of a server, or a word for processes of this server. */
  readonly location: string;
}

export interface Replica {
  /** The name of the backend that stores it. */
  readonly backend: string;
  /** Whether it can be read. */
  readonly isAvailable: boolean;
}

export interface Tablet {
  readonly id: string;
  /** Absent if it is the only tablet: it has the rows of the table. Null: unknown. */
  readonly statistics?: { readonly rowCount: number | null; readonly dataBytes: number | null };
  readonly replicas: readonly Replica[];
}

/** Where a warehouse stores its data. Starts no process: while the warehouse is suspended, this is what was last known. */
export interface Topology {
  tablets(table: TableRef): Promise<readonly Tablet[]>;
  /** The number of tablets of which a backend has a replica. `tableCount`: the number of tables of the warehouse. */
  tabletCount(backend: string, tableCount: () => Promise<number>): Promise<number>;
}

export interface BackendStatus {
  readonly alive: boolean;
  /** Absent: it is available whenever it is enabled, because statements start it. */
  readonly availability?: Availability;
  readonly version: string | null;
  readonly cpuCores: number;
  readonly memoryUsedBytes: number;
  readonly memoryLimitBytes: number;
  readonly dataUsedBytes: number;
  readonly diskAvailableBytes: number;
  readonly diskTotalBytes: number;
  /** Size of the data on disk now that did not fit into memory. */
  readonly spilledBytes: number;
  readonly runningQueries: number;
  readonly lastStartAt: string | null;
  readonly lastHeartbeatAt: string | null;
  /** As of the last start; empty before the first. */
  readonly confinement: readonly ConfinementMeasure[];
  readonly errorMessage: string | null;
}

/** One running warehouse. Created by `Engine.open`, which does not wait until its processes have started. */
export interface EngineWarehouse {
  /** Starts the processes; resolves when statements can run. Idempotent. */
  start(): Promise<void>;
  /** Stops the processes; running statements fail with WAREHOUSE_SUSPENDED. Idempotent. */
  stop(): Promise<void>;
  readonly running: boolean;
  /** Applies new limits; may restart the processes when they are idle. */
  configure(spec: WarehouseSpec): Promise<void>;
  /** What was last known about the backend of this name. Returns at once: it asks neither a process nor a server. */
  status(backend: string): BackendStatus;
  topology(): Topology;
  /** Present if the engine runs on a cluster. */
  readonly servers?: RegisteredServers;

  cost(change: Change): Promise<ChangeCost>;
  apply(change: Change, options: WorkOptions & StepOptions): Promise<Applied | undefined>;
  /** Deletes recorded steps that no intent needs any more. Where calls can arrive late, the engine retains them until none can. */
  forget(catalog: CatalogRef, steps: readonly string[]): Promise<void>;

  /** Analyses of different principals share the processes fairly. */
  analyze(statement: Statement, request: AdmissionRequest): Promise<StatementAnalysis>;
  /**
   * All names in a text at places where a table can be named, each split into its parts as written (`c.d.t`, `d.t`, `t`). Used
   * where an analysis cannot show the names, because it failed or because the engine folded a part into a constant.
   */
  tableNamesIn(sql: string): Promise<readonly (readonly string[])[]>;
  execute(statement: Statement, options: ExecuteOptions): Promise<StatementResult>;
  /** Assigns a step to a running statement that writes and has none. False if it is too late: the statement is committing or has ended. */
  recordStep(resultPath: ExecuteOptions['resultPath'], step: string): Promise<boolean>;
  /** The engine's plan as text. Does not run the statement. */
  explain(statement: Statement): Promise<string>;
  /** All or nothing. Key violations are reported as a Failure CONSTRAINT_VIOLATED with violations by row index. */
  insertRows(
    table: TableRef,
    batch: RowsBatch | StoredRows,
    options: {
      readonly signal: AbortSignal;
      readonly definition: TableDefinition;
      /**
       * The steps of the requests that the rows belong to; rows of requests without a step may be included. If all rows were
       * inserted before, nothing is inserted; if only some of them were, it throws CHANGE_IN_PROGRESS.
       */
      readonly steps?: readonly InsertStep[] | undefined;
    },
  ): Promise<number>;
  /** The columns of a query. Does not run it. */
  describe(statement: Statement): Promise<readonly DescribedColumn[]>;
  /** Reads a query as the definition of a view in its namespace. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
  readView(statement: Statement & { readonly database: string }): Promise<ViewReading>;
  /** Undefined if the text is not a CREATE VIEW statement. Binds nothing. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
  parseCreateView(sql: string): Promise<ParsedCreateView | undefined>;
  /** Throws SQL_INVALID if a fragment is not a single expression or a single query. Nothing is bound or authorized yet. */
  buildStatement(write: TableWrite): Promise<BuiltStatement>;
  /**
   * Infers a table that can hold the file. Throws DATA_INVALID, and INVALID_PARAMETER if the requested columns cannot be derived
   * from the file.
   */
  inferTable(work: SchemaInference, request: AdmissionRequest): Promise<InferredTable>;
  /** All or nothing. Throws DATA_INVALID with row and column, or CONSTRAINT_VIOLATED. */
  load(work: FileLoad, options: WorkOptions & AdmissionRequest): Promise<FileLoadResult>;
  /** How many rows the load with this step inserted; undefined if none did, or if the step was deleted. */
  rowsLoadedByStep(catalog: CatalogRef, step: string): Promise<number | undefined>;
  /** Parses a CREATE TABLE statement in a scratch database. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
  parseCreateTable(sql: string): Promise<ParsedCreateTable>;
  /** Checks the expression of a default against its type: a constant or function call without columns, tables or subqueries. */
  checkDefault(expression: string, type: LogicalType): Promise<void>;
  /**
   * A consistent snapshot of all tables of a catalog as of now, until it is closed; it does not block writers. `keepsFile`: the engine
   * does not write the logs of catalogs into their files meanwhile, so that the files can be copied.
   */
  snapshot(
    catalog: CatalogRef,
    options: { readonly signal: AbortSignal; readonly keepsFile?: boolean },
  ): Promise<Snapshot>;
  /** Restores a part exactly once, however often it is called for it; parts in their order. Throws DATA_INVALID, CONSTRAINT_VIOLATED. */
  restorePart(part: PartToRestore, options: { readonly signal: AbortSignal }): Promise<void>;
  /**
   * Version marks for the positions of `Engine.rowsPage`: positions stay valid as long as one mark is unchanged. Inserted rows come
   * after all others, and a deletion moves no row.
   */
  rowNumbering(table: TableRef, definition: TableDefinition): Promise<readonly string[]>;
  tableStatistics(table: TableRef): Promise<{ readonly rowCount: number; readonly dataBytes: number }>;
  /** Reads the whole table. Every engine computes the same for the same rows (model/table_checksum.ts). */
  checksumTable(table: TableToSum, options: { readonly signal: AbortSignal }): Promise<TableChecksum>;
  /** The steps that are recorded in a catalog, ordered by step: at most `limit`, beginning after `after`. */
  recordedSteps(page: StepsPage): Promise<readonly InsertStep[]>;
  /**
   * Writes all rows of a table, or the first `rowsMax`, into a Parquet file in the spool, for a copy in another engine, which both prove afterwards (checksumTable): columns
   * of scalar types only, bytes as base64. Absent if the engine has snapshots.
   */
  writeCopy?(
    table: TableToSum,
    path: string,
    options: { readonly signal: AbortSignal; readonly rowsMax?: number | undefined },
  ): Promise<void>;
  /**
   * Ends the writes that servers have left which ended themselves: waits for their statements, and completes what they recorded. Called while
   * no server writes to the catalog; absent if writes end with their server. @returns the number of writes that may have changed rows.
   */
  settleWrites?(catalog: CatalogRef, options: { readonly signal: AbortSignal }): Promise<number>;
  /** Records steps whose work was done by another engine, from which the rows were copied. @returns how many were not recorded before. */
  recordSteps(copied: CopiedSteps): Promise<number>;
  /** Compacts a table after many writes. Idempotent. */
  optimize(table: TableRef, options: WorkOptions): Promise<void>;
  /** Compares the tables of an attached catalog with the expected ones. */
  compareTables(
    catalog: CatalogRef,
    expected: readonly ExpectedTable[],
    options: { readonly signal: AbortSignal },
  ): Promise<TableComparison>;
  /** Reads every block of a table that is not in memory already. Returns false if the table does not exist. Throws CATALOG_DAMAGED. */
  readWholeTable(table: TableRef, options: { readonly signal: AbortSignal }): Promise<boolean>;
  /** Compares and reads a catalog that is not attached, in a separate process that a damaged file may crash. Changes nothing. */
  checkFile(
    catalog: AttachRequest,
    expected: readonly ExpectedTable[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly CatalogFault[]>;
  /** Attaches one more catalog, and reports it as at a start. */
  attach(catalog: AttachRequest): Promise<void>;
  /** Tables whose row count may have changed since the last call. */
  takeChangedTables(): readonly TableName[];
}

export interface ParsedCreateTable {
  /** As written: `c.d.t`, `d.t` or `t`; parts that are not written are absent. */
  readonly catalog?: string;
  readonly database?: string;
  readonly table: string;
  readonly ifNotExists: boolean;
  readonly definition: TableStructure;
}

/** How the servers of a warehouse are reached whose engine is a cluster of its own. */
export interface ClusterAccess {
  /** The name by which its servers know the cluster. */
  readonly name: string;
  /** All registered servers as of now. A disabled one serves no statements and has no replica that counts, until it is enabled. */
  readonly backends: () => Promise<readonly DescribedBackend[]>;
  readonly credentials: () => Promise<Credentials>;
  /** Absent: no other server reads the warehouse. */
  readonly notices?: ReplicaNotices | undefined;
}

export interface EngineWarehouseOptions {
  readonly name: string;
  readonly spec: WarehouseSpec;
  /** Present if the engine runs on servers that callers register (`Engine.backends` is empty). */
  readonly cluster?: ClusterAccess | undefined;
  /** The directory of the catalogs' data. */
  readonly dataDirectory: string;
  /** The directory for results and temporary files; emptied by the owner. */
  readonly spoolDirectory: string;
  /** Directories besides the spool from which files may be loaded; absolute, none inside or around the data directory. */
  readonly readableDirectories?: readonly string[];
  readonly observe: (event: EngineEvent) => void;
  /** Every catalog of the warehouse. */
  readonly catalogs: () => Promise<readonly CatalogRef[]>;
  /** Those that nobody sees and that have data here: being created, moved or dropped, or dropped and retained. Absent: none. */
  readonly hiddenCatalogs?: (() => Promise<readonly HiddenCatalog[]>) | undefined;
  /** What the store defines by this name, in any case of its letters; undefined if nothing, or if its name is being changed. Absent: unknown. */
  readonly definedObject?: ((name: TableName) => Promise<DefinedObject | undefined>) | undefined;
  /** The catalogs to attach, called at each start; absent: all. */
  readonly toAttach?: (() => Promise<readonly AttachRequest[]>) | undefined;
  /** Called for each catalog that was attached or could not be; a failure does not keep the others from being attached. */
  readonly attached?: ((report: AttachReport) => void) | undefined;
}

export interface Engine {
  /** The value of a warehouse's `engine` field. */
  readonly name: string;
  /** The backends with which a warehouse is created. */
  readonly backends: readonly Backend[];
  /** Why a name cannot be used here, or undefined. */
  reservedName(category: 'catalogs' | 'databases' | 'tables' | 'views' | 'columns', name: string): string | undefined;
  /** Whether a column of this type can be part of a primary or unique key. */
  keyable(type: LogicalType): boolean;
  /** A query that returns the position of each row followed by the columns of the table, ordered by position. */
  rowsPage(table: TableRef, page: RowsPage): { readonly sql: string; readonly parameters: StatementParameters };
  /** Absent if the catalogs are not files in the data directory of a server: then none can be missing, outdated or damaged there. */
  readonly storage?: CatalogStorage;
  /** Its data is not in the data directory of a server: all servers on a shared store reach it. */
  readonly isReachedByAllServers?: true;
  readonly limits: { readonly columnsMax: number };
  /** Present if it runs on a cluster whose servers callers register: `backends` is empty, and all servers reach its data. */
  readonly cluster?: ClusterEngine;
  /** What callers can do on this engine. Requests that need what it lacks are refused before they reach it. */
  readonly capabilities: Readonly<Record<EngineCapability, boolean>>;
  open(options: EngineWarehouseOptions): EngineWarehouse;
}
