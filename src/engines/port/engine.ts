// The engine port: the interface between the warehouse and an engine. An adapter (engines/<name>/) carries out what the catalog
// decided; it makes no decisions about names, permissions or history. Every method may throw a Failure with a declared code;
// anything else it throws is a bug and becomes a 500.
import type { EngineCapability } from '../../model/engine_capabilities.ts';
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../model/records.ts';
import type { TableChecksum } from '../../model/table_checksum.ts';
import type { LogicalType } from '../../model/types.ts';
import type { EngineEvent } from '../../observe/observations.ts';
import type { AdmissionRequest } from '../admission.ts';
import type { ClusterEngine, Credentials, DescribedBackend, RegisteredServers } from '../cluster/registered_servers.ts';
import type { ReplicaNotices } from '../cluster/replica_notices.ts';
import type { Backend, BackendStatus, Topology } from './backends.ts';
import type { AttachReport, AttachRequest, CatalogFault, CatalogStorage, TableComparison } from './catalog_storage.ts';
import type { Change, ChangeCost } from './changes.ts';
import type { FileLoad, FileLoadResult, InferredTable, SchemaInference } from './load.ts';
import type { CatalogRef, DefinedObject, TableName, TableRef, TableToSum } from './refs.ts';
import type { CopiedSteps, InsertStep, RowsBatch, RowsPage, StepsPage, StoredRows } from './rows.ts';
import type { PartToRestore, Snapshot, SnapshotOptions } from './snapshot.ts';
import type {
  BuiltStatement,
  DescribedColumn,
  ExecuteOptions,
  ParsedCreateTable,
  Statement,
  StatementAnalysis,
  StatementParameters,
  StatementResult,
  TableWrite,
} from './statements.ts';
import type { Applied, ParsedCreateView, ViewReading } from './views.ts';
import type { StepOptions, WorkOptions } from './work.ts';

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
   * A consistent snapshot of all tables of a catalog as of now, until it is closed; it does not block writers. An engine without the capability
   * `catalogSnapshots` needs the writes of all servers held, and settled, until it resolves. `keepsFile`: the engine does not write the logs of
   * catalogs into their files meanwhile, so that the files can be copied.
   */
  snapshot(catalog: CatalogRef, options: SnapshotOptions): Promise<Snapshot>;
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
   * no server writes to the catalog, for a move or a snapshot; absent if writes end with their server. @returns the number of writes that may have changed rows.
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

/** How the servers of a warehouse are reached whose engine is a cluster of its own. */
export interface ClusterAccess {
  /** Also by it, statements on servers that several warehouses share are attributed to one of them. */
  readonly warehouseId: string;
  /** The name by which its servers know the cluster. */
  readonly name: string;
  /** All registered servers as of now. A disabled one is sent no statements and has no replica that counts, until it is enabled. */
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
  /**
   * The ids of all catalogs that have data here, also of those that nobody sees: being created, moved or dropped, dropped and retained, or left by a
   * move. Absent: those of `catalogs`.
   */
  readonly storedCatalogs?: (() => Promise<readonly string[]>) | undefined;
  /** What the store defines by this name, in any case of its letters; undefined if nothing, or if its name is being changed. Absent: unknown. */
  readonly definedObject?: ((name: TableName) => Promise<DefinedObject | undefined>) | undefined;
  /** The catalogs to attach, called at each start; absent: all. */
  readonly toAttach?: (() => Promise<readonly AttachRequest[]>) | undefined;
  /** Called for each catalog that was attached or could not be; a failure does not keep the others from being attached. */
  readonly attached?: ((report: AttachReport) => void) | undefined;
}

export interface EngineLimits {
  readonly columnsMax: number;
  /** Of its dates and times; absent: those of every engine. */
  readonly dates?: DateRange;
}

/** Days, as YYYY-MM-DD. */
export interface DateRange {
  readonly first: string;
  readonly last: string;
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
  /**
   * An expression that counts the dates and times of a value of this type, also within it, that are out of a range; undefined: it has none.
   * Absent if `limits.dates` are present.
   */
  datesOutside?(value: string, type: LogicalType, range: DateRange): string | undefined;
  /** Absent if the catalogs are not files in the data directory of a server: then none can be missing, outdated or damaged there. */
  readonly storage?: CatalogStorage;
  /** Its data is not in the data directory of a server: all servers on a shared store reach it. */
  readonly isReachedByAllServers?: true;
  readonly limits: EngineLimits;
  /** Present if it runs on a cluster whose servers callers register: `backends` is empty, and all servers reach its data. */
  readonly cluster?: ClusterEngine;
  /** What callers can do on this engine. Requests that need what it lacks are refused before they reach it. */
  readonly capabilities: Readonly<Record<EngineCapability, boolean>>;
  open(options: EngineWarehouseOptions): EngineWarehouse;
}
