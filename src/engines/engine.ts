// The port between the warehouse and an engine. An adapter (engines/<name>/) realises what the catalog decided; it decides
// nothing about names, permissions or history. Every method may throw a Failure with a declared code; anything else it
// throws is our own mistake and becomes a 500.

import type { ExpectedTable } from '../model/expected_table.ts';
import type { ColumnDefinition, TableDefinition, WarehouseSpec } from '../model/records.ts';
import type { LogicalType } from '../model/types.ts';
import type { Turn } from './admission.ts';
import type { AttachReport, AttachRequest, CatalogFault, CatalogStorage, TableComparison } from './catalog_storage.ts';
import type { ExportedFiles, ExportInto } from './export.ts';
import type { InferredTable, InferWork, LoadDone, LoadWork } from './load.ts';
import type { CatalogRef, DatabaseRef, TableName, TableRef, ViewRef } from './refs.ts';
import type { PartToRestore, Snapshot } from './snapshot.ts';
import type { Applied, DependentView, KeptView, ParsedCreateView, ViewReading } from './views.ts';

export type { CatalogRef, DatabaseRef, TableName, TableRef, ViewRef };

/** A table that was dropped and can come back. Nothing that SQL can name: `id` is the object's, the database as it was called then. */
export interface HiddenTable {
  readonly database: string;
  readonly id: string;
}
export interface HiddenDefinition {
  readonly id: string;
  /** That it had, and gets. */
  readonly name: string;
  readonly definition: TableDefinition;
}

/**
 * One change of what exists. Each is atomic and idempotent: run again after a crash, it finds its own work done and says so by
 * succeeding. `step` is unique to the intent and lets an engine remember, inside the same transaction as the work, that it
 * was done, where the state alone cannot show it.
 */
export type Change =
  | { readonly kind: 'createCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'dropCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'renameCatalog'; readonly catalog: CatalogRef; readonly newName: string }
  /** Out of reach, its data kept; `restoreCatalog` brings it back, under another name perhaps, and `dropCatalog` ends it. */
  | { readonly kind: 'hideCatalog'; readonly catalog: CatalogRef }
  | { readonly kind: 'restoreCatalog'; readonly catalog: CatalogRef; readonly views?: readonly KeptView[] }
  | { readonly kind: 'createDatabase'; readonly database: DatabaseRef }
  /** Drops what is in it too; the catalog has already decided that this is wanted. Of what is hidden, only `hidden` goes. */
  | { readonly kind: 'dropDatabase'; readonly database: DatabaseRef; readonly hidden?: readonly HiddenTable[] }
  /** Its views go: they are made anew when it comes back. */
  | {
      readonly kind: 'hideDatabase';
      readonly database: DatabaseRef;
      readonly tables: readonly { readonly id: string; readonly name: string }[];
    }
  | {
      readonly kind: 'restoreDatabase';
      /** By the name that it gets. */
      readonly database: DatabaseRef;
      /** Its name when it was hidden. */
      readonly from: string;
      readonly tables: readonly HiddenDefinition[];
      readonly views?: readonly KeptView[];
    }
  | {
      readonly kind: 'renameDatabase';
      readonly database: DatabaseRef;
      readonly newName: string;
      /** Every table in it, so that an engine that cannot rename a schema can move them. */
      readonly tables: readonly { readonly name: string; readonly definition: TableDefinition }[];
    }
  | { readonly kind: 'createTable'; readonly table: TableRef; readonly definition: TableDefinition }
  | { readonly kind: 'dropTable'; readonly table: TableRef }
  | { readonly kind: 'hideTable'; readonly table: TableRef; readonly id: string }
  | {
      readonly kind: 'restoreTable';
      /** By the names that it gets. */
      readonly table: TableRef;
      /** The name of its database when it was hidden. */
      readonly from: string;
      readonly id: string;
      readonly definition: TableDefinition;
    }
  /** Hidden tables go for good, and databases of these names that hold nothing. */
  | {
      readonly kind: 'purge';
      readonly catalog: CatalogRef;
      readonly hidden: readonly HiddenTable[];
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
      /** Old name to new name, for columns that keep their data under another name. */
      readonly renamedColumns: Readonly<Record<string, string>>;
      /** Who asks may not read the rows: of those that do not fit, only the number is told. */
      readonly hidesRows?: boolean;
      /** Made of it: where one of them would break, nothing is done (Failure IN_USE, BrokenViews). */
      readonly views?: readonly DependentView[];
    }
  /** `sql`: a query; names in it that are not whole are looked for in the view's database. */
  | { readonly kind: 'createView'; readonly view: ViewRef; readonly sql: string }
  | {
      readonly kind: 'replaceView';
      readonly view: ViewRef;
      readonly sql: string;
      /** As of `alterTable`. */
      readonly views?: readonly DependentView[];
    }
  | { readonly kind: 'renameView'; readonly view: ViewRef; readonly newName: string; readonly sql: string }
  | { readonly kind: 'dropView'; readonly view: ViewRef };

/** How a change will be done: at once, or by writing the table's data again (then it belongs in a task). */
export type ChangeCost = 'instant' | 'rewrite';

/** What a statement would do, read off the engine's bound plan without running it. */
export interface StatementAnalysis {
  readonly kind: 'select' | 'insert' | 'update' | 'delete' | 'merge';
  /** Every table the plan reads, views expanded, and every table under those. Names as the engine holds them. */
  readonly reads: readonly TableName[];
  readonly writes: readonly TableName[];
  /** Every view that it goes through, those under other views among them. */
  readonly views: readonly TableName[];
  /** Opaque to callers: which state of the definitions the statement was bound in. */
  readonly token: string;
}

/**
 * Thrown by `execute` where tables changed since the analysis that `token` stands for, so that other tables might be read or
 * written than were authorised. Nothing was done; the caller analyses and authorises again.
 */
export class StaleAnalysis extends Error {
  override name = 'StaleAnalysis';
}

/** Positional, or named without the `$`. Values as `parseJson` gives them: JSON.rawJSON marks a number a double cannot hold. */
export type StatementParameters = readonly unknown[] | Readonly<Record<string, unknown>>;

export interface Statement {
  readonly sql: string;
  readonly parameters?: StatementParameters | undefined;
  /** Default namespace; without a database, unqualified table names do not resolve. */
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  /** What `current_user` returns. Absent where the text calls none of `callerFunctions`, and in a view, which has no caller yet. */
  readonly caller?: string | undefined;
}

/** A piece of SQL that a request holds, and where (a JSON pointer). */
export interface WrittenPart {
  readonly text: string;
  readonly pointer: string;
}

/** A change of rows, of which the engine makes one statement. Columns are the table's, by their exact names. */
export type TableWrite =
  | {
      readonly kind: 'update';
      readonly table: TableRef;
      readonly set: readonly { readonly column: string; readonly value: WrittenPart }[];
      readonly where: WrittenPart;
    }
  | { readonly kind: 'delete'; readonly table: TableRef; readonly where: WrittenPart }
  | {
      readonly kind: 'insert';
      readonly table: TableRef;
      readonly columns?: readonly string[] | undefined;
      readonly query: WrittenPart;
    };

export interface WrittenStatement {
  readonly sql: string;
  /** In which line of the statement each part begins. */
  readonly parts: readonly { readonly pointer: string; readonly line: number }[];
}

/** Told now and then which part of the work is done, from 0 to 1. An engine that does not know says nothing. */
export type ReportProgress = (fraction: number) => void;

export interface WorkOptions {
  readonly signal: AbortSignal;
  readonly progress?: ReportProgress | undefined;
}

export interface ExecuteOptions extends WorkOptions {
  /** What allowed the statement: StaleAnalysis is thrown where definitions changed since. */
  readonly analysis: StatementAnalysis;
  /** The result is cut after this many rows (the statement itself is not changed). */
  readonly rowsMax?: number | undefined;
  /** `string`: 64-bit and wider integers and decimals as JSON strings (rest-standard B7). */
  readonly numbers: 'number' | 'string';
  readonly timeoutMs: number;
  /** Absolute path without extension; a result larger than one page is left in `<resultPath>.rows`. */
  readonly resultPath: string;
  readonly pageBytesMax: number;
  /**
   * For a statement that writes: unique; a second run with the same step does nothing and says `repeated`. Read when the statement is
   * handed to the engine.
   */
  readonly step?: string | undefined;
  /** The rows of a select are written to files in `<resultPath>.files/` and nowhere else; `rows` is empty then. */
  readonly into?: ExportInto | undefined;
  /** A select is run to its end with the engine's profiling on: its rows are dropped, and `profile` says what took how long. */
  readonly profile?: boolean | undefined;
  /** Of a statement that takes at least so long, the plan is told too. */
  readonly planAfterMs?: number | undefined;
}

export interface ResultColumn {
  readonly name: string;
  readonly type: string;
}

/** `logical`: the type of ours that holds every value of it; absent where none does. */
export interface DescribedColumn extends ResultColumn {
  readonly logical?: LogicalType;
}

export interface StatementResult {
  readonly columns: readonly ResultColumn[];
  /** Rows of a select; rows changed by DML. */
  readonly rowCount: number;
  /**
   * Where the rows are: JSON arrays joined by `,\n`, ready for the wire. One page: the text itself. More: a file and the byte
   * offset at which each page begins (the last entry is the file's length). Pages end with `,\n` in the file, except the last.
   */
  readonly rows:
    | { readonly kind: 'text'; readonly text: string }
    | { readonly kind: 'file'; readonly path: string; readonly offsets: readonly number[] };
  readonly truncated: boolean;
  readonly repeated?: boolean;
  /** The rows are those that a statement that writes returned (RETURNING). */
  readonly returned?: boolean;
  /** Where they were asked for. */
  readonly files?: ExportedFiles;
  /** The engine's own, as JSON; where it was asked for. */
  readonly profile?: unknown;
  /** As `explain` tells it. */
  readonly plan?: string;
}

/** A `RowsBatch` in a file, as v8.serialize writes it: it is not to pass through the server's memory. */
export interface StoredRows {
  readonly file: string;
  readonly rowCount: number;
}

export interface RowsBatch {
  /** Those that the rows give; the table's others get their default. */
  readonly columns: readonly ColumnDefinition[];
  /** JSON text: an array of arrays, in the order of `columns`, already validated and normalised (query/rows/row_validation.ts). */
  readonly json: string;
  readonly rowCount: number;
  /** Where only some rows give a column that has a default: which do not (they hold null there). `column` counts in `columns`. */
  readonly omitted?: readonly { readonly column: number; readonly rows: readonly number[] }[];
}

/** What makes an insert happen once: unique. */
export interface InsertStep {
  readonly step: string;
  readonly rowCount: number;
}

export interface RowsPage {
  readonly columns: readonly string[];
  /** The position of the last row before the page. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** A restriction that the operating system puts on the processes of an engine. */
export interface ConfinementMeasure {
  readonly measure: 'namespaces' | 'landlock' | 'seccomp';
  readonly active: boolean;
  /** Why it is not active. */
  readonly reason: string | null;
}

export interface BackendStatus {
  readonly alive: boolean;
  readonly version: string | null;
  readonly cpuCores: number;
  readonly memoryUsedBytes: number;
  readonly memoryLimitBytes: number;
  readonly dataUsedBytes: number;
  readonly diskAvailableBytes: number;
  readonly diskTotalBytes: number;
  /** Of what does not fit the memory, on disk now. */
  readonly spilledBytes: number;
  readonly runningQueries: number;
  readonly lastStartAt: string | null;
  readonly lastHeartbeatAt: string | null;
  /** As of the last start; empty before the first. */
  readonly confinement: readonly ConfinementMeasure[];
  readonly errorMessage: string | null;
}

/** One running warehouse. Made by `Engine.open`, which does not wait for processes to be up. */
export interface EngineWarehouse {
  /** Brings the processes up; resolves when statements can run. Idempotent. */
  start(): Promise<void>;
  /** Stops them; running statements end with WAREHOUSE_SUSPENDED. Idempotent. */
  stop(): Promise<void>;
  readonly running: boolean;
  /** Takes new limits over; may restart the processes when idle. */
  configure(spec: WarehouseSpec): Promise<void>;
  status(): BackendStatus;

  cost(change: Change): Promise<ChangeCost>;
  apply(change: Change, options: WorkOptions & { readonly step: string }): Promise<Applied | undefined>;
  /** Remembered steps that no intent needs any more may be forgotten. */
  forget(catalog: CatalogRef, steps: readonly string[]): Promise<void>;

  /** `turn`: analyses of different principals share the processes fairly. */
  analyze(statement: Statement, turn: Turn): Promise<StatementAnalysis>;
  /**
   * Names in a text where tables are named, each in its parts as written (`c.d.t`, `d.t`, `t`), none left out: for what an analysis
   * does not show, because it failed or because the engine made a constant of a part.
   */
  tableNamesIn(sql: string): readonly (readonly string[])[];
  execute(statement: Statement, options: ExecuteOptions): Promise<StatementResult>;
  /** Gives a step to a statement that runs without one and writes. False where it is too late: it commits, or has ended. */
  remember(resultPath: ExecuteOptions['resultPath'], step: string): Promise<boolean>;
  /** The engine's plan as text. Does not run the statement. */
  explain(statement: Statement): Promise<string>;
  /** All or nothing. Violations of keys are a Failure CONSTRAINT_VIOLATED with violations by row index. */
  insertRows(
    table: TableRef,
    batch: RowsBatch | StoredRows,
    options: {
      readonly signal: AbortSignal;
      readonly definition: TableDefinition;
      /**
       * Of the requests whose rows these are; rows may also be of requests without a step. Where all rows were inserted before, nothing
       * is inserted; where only some of them were, it throws CHANGE_IN_PROGRESS.
       */
      readonly steps?: readonly InsertStep[] | undefined;
    },
  ): Promise<number>;
  /** The columns of a query. Does not run it. */
  describe(statement: Statement): Promise<readonly DescribedColumn[]>;
  /** A query as a view would be made of it, in its namespace. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
  readView(statement: Statement & { readonly database: string }): Promise<ViewReading>;
  /** Undefined where the text is no CREATE VIEW. Nothing of it is bound. Throws SQL_INVALID or SQL_NOT_SUPPORTED. */
  parseCreateView(sql: string): ParsedCreateView | undefined;
  /** Throws SQL_INVALID where a part is not one expression, or not one query. Nothing is bound and nobody is authorised yet. */
  writtenStatement(write: TableWrite): Promise<WrittenStatement>;
  /** A table that could take the file. Throws DATA_INVALID, and INVALID_PARAMETER where the columns asked for cannot be had of it. */
  inferTable(work: InferWork, turn: Turn): Promise<InferredTable>;
  /** All or nothing. Throws DATA_INVALID with row and column, or CONSTRAINT_VIOLATED. */
  load(work: LoadWork, options: WorkOptions & Turn): Promise<LoadDone>;
  /** How many rows a load of this step put in; undefined where none did, or it was forgotten. */
  loadedBefore(catalog: CatalogRef, step: string): Promise<number | undefined>;
  /** The engine reads a CREATE TABLE statement in a scratch database; Failure SQL_INVALID or SQL_NOT_SUPPORTED otherwise. */
  parseCreateTable(sql: string): Promise<ParsedCreateTable>;
  /** Checks a default's text against its type: a constant or function call without columns, tables or subqueries. */
  checkDefault(expression: string, type: LogicalType): Promise<void>;
  /** All tables of a catalog as they are now, for as long as it is open; it keeps nobody from writing. */
  snapshot(catalog: CatalogRef, options: { readonly signal: AbortSignal }): Promise<Snapshot>;
  /** Once, however often it is called for a part; parts in their order. Throws DATA_INVALID, CONSTRAINT_VIOLATED. */
  restorePart(part: PartToRestore, options: { readonly signal: AbortSignal }): Promise<void>;
  /**
   * What positions of `Engine.rowsPage` are valid for, as marks: rows have the positions that they had as long as one mark stays.
   * Rows that are inserted come after all others, and a deletion moves no row.
   */
  rowNumbering(table: TableRef, definition: TableDefinition): Promise<readonly string[]>;
  tableStatistics(table: TableRef): Promise<{ readonly rowCount: number; readonly dataBytes: number }>;
  /** Puts a table that was written much in order. Idempotent. */
  optimize(table: TableRef, options: WorkOptions): Promise<void>;
  /** Compares the tables of an attached catalog with those that it should have. */
  compareTables(
    catalog: CatalogRef,
    expected: readonly ExpectedTable[],
    options: { readonly signal: AbortSignal },
  ): Promise<TableComparison>;
  /** Reads every block of a table that is not in memory already. False: there is no such table. Throws CATALOG_DAMAGED. */
  readWholeTable(table: TableRef, options: { readonly signal: AbortSignal }): Promise<boolean>;
  /** Compares and reads a catalog that is not attached, in a process of its own that may die of it. Changes nothing. */
  checkFile(
    catalog: AttachRequest,
    expected: readonly ExpectedTable[],
    options: { readonly signal: AbortSignal },
  ): Promise<readonly CatalogFault[]>;
  /** Attaches a catalog beside those that are attached, and reports it as at a start. */
  attach(catalog: AttachRequest): Promise<void>;
  /** Tables whose row count may have changed since the last call. */
  takeChangedTables(): readonly TableName[];
}

export interface ParsedCreateTable {
  /** As written: `c.d.t`, `d.t` or `t`; parts not written are absent. */
  readonly catalog?: string;
  readonly database?: string;
  readonly table: string;
  readonly ifNotExists: boolean;
  readonly definition: TableDefinition;
}

export interface EngineWarehouseOptions {
  readonly name: string;
  readonly spec: WarehouseSpec;
  /** Where catalogs' data is. */
  readonly dataDirectory: string;
  /** Where results and temporary files go; emptied by the owner. */
  readonly spoolDirectory: string;
  /** Where files may be that are to be loaded, besides the spool; absolute, none in or around the data. */
  readonly readableDirectories?: readonly string[];
  readonly observe: (event: EngineEvent) => void;
  /** Every catalog that lives here. */
  readonly catalogs: () => Promise<readonly CatalogRef[]>;
  /** Those of them that are attached at a start, asked at each; absent: all. */
  readonly toAttach?: (() => Promise<readonly AttachRequest[]>) | undefined;
  /** Called with each catalog that was attached, or could not be: the others are attached all the same. */
  readonly attached?: ((report: AttachReport) => void) | undefined;
}

export type EngineEvent =
  | {
      readonly kind: 'engineStarted';
      readonly warehouse: string;
      readonly ms: number;
      /** The measures of confinement that are active. */
      readonly confinement: string;
      readonly pid: number;
    }
  | { readonly kind: 'engineStopped'; readonly warehouse: string }
  | { readonly kind: 'engineSpareReady'; readonly warehouse: string; readonly ms: number; readonly pid: number }
  | { readonly kind: 'engineSpareLost'; readonly warehouse: string; readonly reason: string }
  | { readonly kind: 'engineDied'; readonly warehouse: string; readonly reason: string }
  | { readonly kind: 'engineKilled'; readonly warehouse: string; readonly reason: string }
  /** A process in which statements are bound; another one takes its place. */
  | { readonly kind: 'analysisDied'; readonly warehouse: string; readonly pid: number; readonly reason: string }
  /** Measures of confinement that are not active, with the reasons. Reported once, at the first start. */
  | { readonly kind: 'engineUnconfined'; readonly warehouse: string; readonly reason: string };

export interface Engine {
  /** The value of a warehouse's `engine` field. */
  readonly name: string;
  /** Why a name cannot be used for a catalog or database here, or undefined. */
  reservedName(category: 'catalogs' | 'databases' | 'tables' | 'views' | 'columns', name: string): string | undefined;
  /** Whether a column of this type can be part of a primary or unique key. */
  keyable(type: LogicalType): boolean;
  /** A query whose first column is the position of a row, followed by the table's columns, in the order of the positions. */
  rowsPage(table: TableRef, page: RowsPage): { readonly sql: string; readonly parameters: StatementParameters };
  readonly storage: CatalogStorage;
  readonly limits: { readonly columnsMax: number; readonly replicasPerTablet: number };
  open(options: EngineWarehouseOptions): EngineWarehouse;
}
