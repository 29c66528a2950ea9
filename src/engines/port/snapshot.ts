// Snapshots: the rows of a catalog as of one instant, read in parts while writers continue, and the restore of such parts into
// tables. A part is a Parquet file that holds every value exactly. Paths are those of files of this server, which the adapter fills
// and reads.
import type { ColumnDefinition } from '../../model/records.ts';
import type { TableRef } from './refs.ts';

/** Part of a table, in the order of its rows; the boundaries of parts do not depend on their contents. */
export interface TablePart {
  /** The number of the part; empty parts are omitted. */
  readonly part: number;
  readonly rows: number;
  /** Opaque. Differs if the rows differ; it may also differ for equal rows (after an upgrade of the engine). */
  readonly fingerprint: string;
}

export interface SnapshotTable {
  readonly database: string;
  readonly table: string;
  readonly columns: readonly ColumnDefinition[];
  /** For a copy that is made at once: small parts without a fingerprint, in files that are quick to write. */
  readonly isCopied?: boolean;
}

export interface SnapshotOptions {
  readonly signal: AbortSignal;
  readonly keepsFile?: boolean;
  /** Only the tables of these are read. Absent: of all. */
  readonly databases?: readonly string[];
  /** What a snapshot for the same purpose has left whose process ended is removed. */
  readonly purpose?: string;
}

/**
 * Every method may throw CHANGE_IN_PROGRESS once the catalog was renamed or dropped, which a snapshot does not prevent. While it is
 * open an engine may keep what it would delete otherwise: its log, or rows that were deleted.
 */
export interface Snapshot {
  parts(table: SnapshotTable, signal: AbortSignal): Promise<readonly TablePart[]>;
  /** Writes a part to a file that does not exist yet. @returns how many rows it holds. `path`: in the spool. */
  write(table: SnapshotTable, part: number, path: string, signal: AbortSignal): Promise<number>;
  /** Idempotent; must be called at the end. */
  close(): Promise<void>;
}

export interface PartToRestore extends Omit<SnapshotTable, 'database' | 'table' | 'isCopied'> {
  readonly table: TableRef;
  /** In the spool. */
  readonly path: string;
  /**
   * The number of rows of the preceding parts: the row count of the table shows whether this part was restored already. There are
   * no other writers.
   */
  readonly rowsBefore: number;
  readonly rows: number;
  /** The same in every attempt to restore this part, and in no other one. */
  readonly step: string;
  /** The file is of another engine (`writeCopy`): bytes are base64 there. */
  readonly isOfOther?: boolean;
}
