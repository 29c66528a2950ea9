// The files of catalogs as the server checks them: what an engine can say of a file without opening it, and what is recorded of it
// elsewhere, so that a missing, older or foreign file is recognized. How files are laid out is the adapter's.
import type { CatalogRef, TableName } from './refs.ts';

/** How far a file has come. Of the same file, a later state is never less in `checkpoint`, nor, at the same one, in `logBytes`. */
export interface FilePosition {
  /** Counts up each time the log is written into the file. */
  readonly checkpoint: number;
  /** Bytes of the log that hold committed transactions and are on disk for good. */
  readonly logBytes: number;
}

/** What is recorded of a catalog's file: at least this much was acknowledged. */
export interface RecordedPosition extends FilePosition {
  /** Random, written inside the file when it was made. */
  readonly identity: string;
}

/** A catalog to attach; its file must have this identity. Undefined: nothing is recorded of it yet. */
export interface AttachRequest extends CatalogRef {
  readonly identity?: string | undefined;
  /** Nothing was ever stored in it: its file is created where there is none. */
  readonly isNew?: boolean;
}

export interface DamagedCatalog extends CatalogRef {
  /** One sentence without file names. */
  readonly reason: string;
  /** Whether its sound tables can still be used; else every statement of it is refused. */
  readonly isAttached: boolean;
}

/** Something wrong with a catalog's file, or with one table in it. `different`: from what the store describes. */
export interface CatalogFault {
  readonly kind: 'damaged' | 'different';
  readonly database?: string;
  readonly table?: string;
  /** One sentence without file names. */
  readonly reason: string;
}

export function faultText({ database, table, reason }: CatalogFault): string {
  return table === undefined ? reason : `table ${JSON.stringify(`${database}.${table}`)}: ${reason}`;
}

export interface TableComparison {
  readonly faults: readonly CatalogFault[];
  /** All tables that the engine has in the catalog, its own and dropped ones included. */
  readonly tables: readonly Omit<TableName, 'catalog'>[];
}

/** What an engine reports of the catalogs that it attaches. */
export type AttachReport =
  | { readonly kind: 'attached'; readonly catalog: CatalogRef; readonly identity: string }
  | { readonly kind: 'refused'; readonly catalog: CatalogRef; readonly reason: string }
  /** The engine itself stopped over its file. */
  | { readonly kind: 'fatal'; readonly catalog: CatalogRef; readonly reason: string };

/** Thrown where a file is missing, or cannot be one that the engine wrote. The message is the reason. */
export class DamagedFile extends Error {
  override name = 'DamagedFile';
}

/** Thrown where more files than usual hold a catalog, because its log is just being written into its file. */
export class CheckpointRunning extends Error {
  override name = 'CheckpointRunning';
}

export interface CatalogStorage {
  /** Whether any file of the catalog is there. */
  exists(dataDirectory: string, catalogId: string): boolean;
  /** Differs for each log that a catalog had; empty without one. Called after every write: synchronous, microseconds. */
  logOf(dataDirectory: string, catalogId: string): string;
  /** Flushes the log before it is measured. `since`: an earlier position, from which it is read on. Throws DamagedFile. */
  position(dataDirectory: string, catalogId: string, since?: FilePosition): Promise<FilePosition>;
  /** Ids of the catalogs that have a file. */
  catalogIds(dataDirectory: string): Promise<string[]>;
  /**
   * What holds a catalog at a position, as long as `checkpoint` does not change: nothing of it is written again until then. Throws
   * CheckpointRunning.
   */
  filesAt(dataDirectory: string, catalogId: string, position: FilePosition): Promise<readonly CatalogFile[]>;
}

/** The beginning of a file. */
export interface CatalogFile {
  /** From the data directory, with `/`. */
  readonly path: string;
  readonly bytes: number;
}

/** Where positions are recorded. */
export interface PositionRecords {
  load(): Promise<ReadonlyMap<string, RecordedPosition>>;
  /** Whether there is nothing in the catalog that a file would have to hold. */
  isEmpty(catalogId: string): Promise<boolean>;
  save(positions: ReadonlyMap<string, RecordedPosition>): Promise<void>;
}
