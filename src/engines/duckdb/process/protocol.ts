// The messages between the server and the engine process. Values are structured clones; parameters are JSON text, so that numbers
// keep their digits.
import type { ExpectedTable } from '../../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../../model/records.ts';
import type { LogicalType } from '../../../model/types.ts';
import type { AttachRequest, CatalogFault, TableComparison } from '../../port/catalog_storage.ts';
import type { Change, ChangeCost } from '../../port/changes.ts';
import type { FileLoad, FileLoadResult, InferredTable, SchemaInference } from '../../port/load.ts';
import type { CatalogRef, TableName, TableRef } from '../../port/refs.ts';
import type { InsertStep, RowsBatch, StoredRows } from '../../port/rows.ts';
import type { PartToRestore, SnapshotTable, TablePart } from '../../port/snapshot.ts';
import type {
  BuiltStatement,
  DescribedColumn,
  ExecuteOptions,
  PageReady,
  ParsedCreateTable,
  StatementAnalysis,
  StatementResult,
  TableWrite,
} from '../../port/statements.ts';
import type { Applied, ViewReading } from '../../port/views.ts';
import type { NamedObjects } from '../analysis/named_objects.ts';
import type { LoadPlan } from '../load/load_plan.ts';
import type { AttachMessage } from '../storage/attachments.ts';
import type { DirectOperations } from './direct_operations.ts';
import type { WireError } from './wire_errors.ts';

/** A statement with its parameters as JSON text. */
export interface WireStatement {
  readonly sql: string;
  readonly parameters?: string | undefined;
  readonly catalog: CatalogRef;
  readonly database?: string | undefined;
  readonly caller?: string | undefined;
}

/** `token` and `tables`: from the analysis by which the statement was authorized. */
export type WireOptions = Omit<ExecuteOptions, 'signal' | 'progress' | 'timeoutMs' | 'analysis' | 'onPage'> & {
  readonly token: string;
  readonly tables: readonly TableName[];
  /** Whether pages are reported. */
  readonly reportsPages: boolean;
};

/** Every operation of the engine process: its argument and its result. */
export interface Operations extends DirectOperations {
  /** Opens the engine with all its settings and limits but without files: everything that does not depend on catalogs. */
  prepare: [
    {
      readonly spec: WarehouseSpec;
      readonly dataDirectory: string;
      readonly spoolDirectory: string;
      readonly readableDirectories: readonly string[];
    },
    { readonly version: string },
  ];
  /** Opens the files of the catalogs. Afterwards the process serves the other operations. */
  attach: [
    { readonly catalogs: readonly AttachRequest[] },
    /** `written`: tables that may have been written since the server last took the changed tables. */
    { readonly written: readonly TableName[] },
  ];
  close: [undefined, undefined];
  /** Resolves the names in the statement, for `bind` in another process. */
  namedObjects: [WireStatement, NamedObjects];
  /** Runs in a process without files, which the statement may crash: binds the statement to empty copies of the objects. */
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
  recordStep: [{ readonly resultPath: string; readonly step: string }, boolean];
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
  inferTable: [SchemaInference, InferredTable];
  /** Like `bind`, for a file to load and the expressions over it. */
  planLoad: [FileLoad, LoadPlan];
  load: [{ readonly work: FileLoad; readonly plan: LoadPlan }, FileLoadResult];
  rowsLoadedByStep: [{ readonly catalog: CatalogRef; readonly step: string }, number | undefined];
  beginSnapshot: [{ readonly catalog: CatalogRef; readonly keepsFile: boolean }, string];
  snapshotParts: [{ readonly id: string; readonly table: SnapshotTable }, readonly TablePart[]];
  writeSnapshotPart: [
    { readonly id: string; readonly table: SnapshotTable; readonly part: number; readonly path: string },
    number,
  ];
  endSnapshot: [string, undefined];
  restorePart: [PartToRestore, undefined];
  parseCreateTable: [string, ParsedCreateTable];
  buildStatement: [TableWrite, BuiltStatement];
  checkDefault: [{ readonly expression: string; readonly type: LogicalType }, undefined];
  optimize: [TableRef, undefined];
  compareTables: [{ readonly catalog: CatalogRef; readonly expected: readonly ExpectedTable[] }, TableComparison];
  /** Whether the file of the catalog is open, under any name. */
  isAttached: [CatalogRef, boolean];
  /** Runs in a process without other files, which a damaged file may crash. */
  checkFile: [
    { readonly catalog: AttachRequest; readonly expected: readonly ExpectedTable[] },
    readonly CatalogFault[],
  ];
  rowNumbering: [{ readonly table: TableRef; readonly definition: TableDefinition }, readonly string[]];
}

export type OperationName = keyof Operations;

export type ToEngine =
  | {
      readonly kind: 'call';
      readonly id: number;
      readonly operation: OperationName;
      readonly argument: unknown;
      /** Whether the caller wants progress messages. */
      readonly progress: boolean;
    }
  | { readonly kind: 'interrupt'; readonly id: number };

export type FromEngine =
  | AttachMessage
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly fault: WireError }
  /** The fraction of a running call that is done, from 0 to 1. */
  | { readonly kind: 'progress'; readonly id: number; readonly fraction: number }
  | { readonly kind: 'page'; readonly id: number; readonly page: PageReady }
  | {
      readonly kind: 'heartbeat';
      readonly residentBytes: number;
      readonly spilledBytes: number;
      readonly runningStatements: number;
    };

/** Interval of the heartbeats of the engine process. */
export const heartbeatMs = 250;
