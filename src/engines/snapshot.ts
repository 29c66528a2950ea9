// The rows of a catalog as they are at one instant, read out part by part while others go on writing; and such parts put into tables
// again. A part is a Parquet file that holds every value exactly.
import type { ColumnDefinition } from '../model/records.ts';
import type { TableRef } from './refs.ts';

/** Of a table, in the order of its rows; where a part begins does not hang on what is in it. */
export interface TablePart {
  /** Which; parts that hold nothing are left out. */
  readonly part: number;
  readonly rows: number;
  /** Opaque. Where rows are others, it is another; it may be another too where they are the same (another release of the engine). */
  readonly fingerprint: string;
}

export interface SnapshotTable {
  readonly database: string;
  readonly table: string;
  readonly columns: readonly ColumnDefinition[];
}

/**
 * Every method throws CHANGE_IN_PROGRESS once the catalog was renamed or dropped, which no snapshot keeps from being done. While it
 * is open the engine cannot put its log away.
 */
export interface Snapshot {
  parts(table: SnapshotTable, signal: AbortSignal): Promise<readonly TablePart[]>;
  /** Into a file that is not there yet. @returns how many rows it holds. `path`: in the spool. */
  write(table: SnapshotTable, part: number, path: string, signal: AbortSignal): Promise<number>;
  /** Idempotent; to be called in the end. */
  close(): Promise<void>;
}

export interface PartToRestore extends Omit<SnapshotTable, 'database' | 'table'> {
  readonly table: TableRef;
  /** In the spool. */
  readonly path: string;
  /** Of the parts before it: how many rows say whether it is in the table already. Nobody else writes there. */
  readonly rowsBefore: number;
  readonly rows: number;
}
