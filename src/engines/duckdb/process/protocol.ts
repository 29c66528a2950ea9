// What the server and the engine process say to each other. Values cross as structured clones; parameters as JSON text, so
// that numbers keep their digits.
import type { ExpectedTable } from '../../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import type { Code, RequestOutcome } from '../../../standard/codes.ts';
import type { AttachRequest, CatalogFault, TableComparison } from '../../catalog_storage.ts';
import type {
  CatalogRef,
  Change,
  ChangeCost,
  DescribedColumn,
  ExecuteOptions,
  InsertStep,
  ParsedCreateTable,
  RowsBatch,
  StatementAnalysis,
  StatementResult,
  StoredRows,
  TableName,
  TableRef,
  TableWrite,
  WrittenStatement,
} from '../../engine.ts';
import type { FileShape, InferredTable, InferWork, LoadDone, LoadWork } from '../../load.ts';
import type { PartToRestore, SnapshotTable, TablePart } from '../../snapshot.ts';
import type { Applied, ViewReading } from '../../views.ts';
import type { NamedObjects } from '../analysis/named_objects.ts';
import type { AttachMessage } from '../storage/attachments.ts';

/** A statement with its parameters as JSON text. */
export interface WireStatement {
  readonly sql: string;
  readonly parameters?: string | undefined;
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  readonly caller?: string | undefined;
}

/** `token` and `tables`: of the analysis that allowed the statement. */
export type WireOptions = Omit<ExecuteOptions, 'signal' | 'progress' | 'timeoutMs' | 'analysis'> & {
  readonly token: string;
  readonly tables: readonly TableName[];
};

/** Every operation of the engine process: what it takes, what it answers. */
export interface Operations {
  /** The engine with all its settings and limits, and without a file: whatever does not depend on catalogs is done. */
  prepare: [
    {
      readonly spec: WarehouseSpec;
      readonly dataDirectory: string;
      readonly spoolDirectory: string;
      readonly readableDirectories: readonly string[];
    },
    { readonly version: string },
  ];
  /** Opens the files of the catalogs. From then on the process serves the other operations. */
  attach: [
    { readonly catalogs: readonly AttachRequest[] },
    /** `written`: tables that may have been written after anybody was told of it last. */
    { readonly written: readonly TableName[] },
  ];
  close: [undefined, undefined];
  /** What the names in the statement stand for: for `bind` in another process. */
  namedObjects: [WireStatement, NamedObjects];
  /** In a process without files, which may die of it: binds the statement on empty copies of the objects. */
  bind: [{ readonly statement: WireStatement; readonly objects: NamedObjects }, StatementAnalysis];
  execute: [
    {
      readonly statement: WireStatement;
      readonly options: WireOptions;
      readonly writes: readonly TableName[];
      readonly inserts: boolean;
    },
    StatementResult,
  ];
  remember: [{ readonly resultPath: string; readonly step: string }, boolean];
  readView: [WireStatement & { readonly database: string }, ViewReading];
  describe: [WireStatement, readonly DescribedColumn[]];
  explain: [WireStatement, string];
  cost: [Change, ChangeCost];
  apply: [{ readonly change: Change; readonly step: string }, Applied | undefined];
  forget: [{ readonly catalog: CatalogRef; readonly steps: readonly string[] }, undefined];
  insertRows: [
    {
      readonly table: TableRef;
      readonly batch: RowsBatch | StoredRows;
      readonly definition: TableDefinition;
      readonly steps?: readonly InsertStep[] | undefined;
    },
    number,
  ];
  inferTable: [InferWork, InferredTable];
  /** As `bind`, of a file that is to be loaded and of the expressions over it. */
  shapeOfLoad: [LoadWork, FileShape];
  /** The file has its shape, but where the step may be done and the file gone. */
  load: [LoadWork, LoadDone];
  loadedBefore: [{ readonly catalog: CatalogRef; readonly step: string }, number | undefined];
  beginSnapshot: [CatalogRef, string];
  snapshotParts: [{ readonly id: string; readonly table: SnapshotTable }, readonly TablePart[]];
  writeSnapshotPart: [
    { readonly id: string; readonly table: SnapshotTable; readonly part: number; readonly path: string },
    number,
  ];
  endSnapshot: [string, undefined];
  restorePart: [PartToRestore, undefined];
  parseCreateTable: [string, ParsedCreateTable];
  writtenStatement: [TableWrite, WrittenStatement];
  checkDefault: [{ readonly expression: string; readonly type: LogicalType }, undefined];
  optimize: [TableRef, undefined];
  compareTables: [{ readonly catalog: CatalogRef; readonly expected: readonly ExpectedTable[] }, TableComparison];
  readWholeTable: [TableRef, boolean];
  /** Whether the file of the catalog is open, under whatever name. */
  isAttached: [CatalogRef, boolean];
  /** In a process without files, which may die of it. */
  checkFile: [
    { readonly catalog: AttachRequest; readonly expected: readonly ExpectedTable[] },
    readonly CatalogFault[],
  ];
  rowNumbering: [{ readonly table: TableRef; readonly definition: TableDefinition }, readonly string[]];
  tableStatistics: [TableRef, { readonly rowCount: number; readonly dataBytes: number }];
}

export type OperationName = keyof Operations;

export type ToEngine =
  | {
      readonly kind: 'call';
      readonly id: number;
      readonly operation: OperationName;
      readonly argument: unknown;
      /** Whether the caller wants to be told how far it has come. */
      readonly progress: boolean;
    }
  | { readonly kind: 'interrupt'; readonly id: number };

export type FromEngine =
  | AttachMessage
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly fault: WireError }
  /** Of a call that runs: which part of it is done, from 0 to 1. */
  | { readonly kind: 'progress'; readonly id: number; readonly fraction: number }
  | {
      readonly kind: 'heartbeat';
      readonly residentBytes: number;
      readonly spilledBytes: number;
      readonly runningStatements: number;
    };

export type WireError =
  | {
      readonly kind: 'failure';
      readonly code: Code;
      readonly message: string;
      /** JSON text: it may hold numbers that keep their digits. */
      readonly result: string;
      readonly retryAfterSeconds?: number | undefined;
      readonly outcome?: RequestOutcome | undefined;
    }
  | { readonly kind: 'stale' }
  /** The engine is no longer to be trusted (a fatal error of its own): the process is replaced. */
  | { readonly kind: 'fatal'; readonly message: string }
  | { readonly kind: 'error'; readonly message: string; readonly stack?: string | undefined };

/** Where the rows of a result are left that is larger than a page. */
export const rowsFile = (resultPath: string): string => `${resultPath}.rows`;

/** How often the engine process says that it is there. */
export const heartbeatMs = 250;
