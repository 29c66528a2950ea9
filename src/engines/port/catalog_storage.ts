// The files of catalogs as the server checks them: what an engine can determine about a file without opening it, and the positions
// recorded elsewhere, by which a missing, outdated or foreign file is recognized. The layout of the files is up to the adapter.
import type { CatalogRef, TableName } from './refs.ts';

/**
 * The position of a file in its history. Later states of a file never have a smaller `checkpoint`, nor smaller `logBytes` at the
 * same `checkpoint`.
 */
export interface FilePosition {
  /** Incremented each time the log is written into the file. */
  readonly checkpoint: number;
  /** Bytes of the log with durably committed transactions. */
  readonly logBytes: number;
}

/** The recorded position of a catalog's file: at least this much was acknowledged. */
export interface RecordedPosition extends FilePosition {
  /** A random id, written into the file when it was created. */
  readonly identity: string;
}

/** A catalog to attach; its file must have this identity. Undefined: no identity is recorded yet. */
export interface AttachRequest extends CatalogRef {
  readonly identity?: string | undefined;
  /** Nothing was ever stored in it: if its file does not exist, it is created. */
  readonly isNew?: boolean;
}

export interface DamagedCatalog extends CatalogRef {
  /** One sentence without file names. */
  readonly reason: string;
  /** Whether its intact tables can still be used; otherwise every statement on it is refused. */
  readonly isAttached: boolean;
}

/** A fault of a catalog's file or of one table in it. `different`: it does not match the description in the store. */
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
  /** All tables of the catalog in the engine, including internal and dropped ones. */
  readonly tables: readonly Omit<TableName, 'catalog'>[];
}

/** The report of an engine about a catalog that it attaches. */
export type AttachReport =
  | { readonly kind: 'attached'; readonly catalog: CatalogRef; readonly identity: string }
  | { readonly kind: 'refused'; readonly catalog: CatalogRef; readonly reason: string }
  /** The engine process itself stopped because of the file. */
  | { readonly kind: 'fatal'; readonly catalog: CatalogRef; readonly reason: string };

/** Thrown if a file is missing, or cannot have been written by the engine. The message is the reason. */
export class DamagedFile extends Error {
  override name = 'DamagedFile';
}

/** Thrown if a catalog consists of more files than usual, because its log is being checkpointed into its file. */
export class CheckpointRunning extends Error {
  override name = 'CheckpointRunning';
}

export interface CatalogStorage {
  /** Whether any file of the catalog exists. */
  exists(dataDirectory: string, catalogId: string): boolean;
  /** Identifies the current log of a catalog; empty without one. Called after every write: synchronous, microseconds. */
  logOf(dataDirectory: string, catalogId: string): string;
  /** Flushes the log before measuring it. `since`: an earlier position from which to continue reading. Throws DamagedFile. */
  position(dataDirectory: string, catalogId: string, since?: FilePosition): Promise<FilePosition>;
  /** Ids of the catalogs that have a file. */
  catalogIds(dataDirectory: string): Promise<string[]>;
  /** The files of a catalog at a position. They are not written again as long as `checkpoint` does not change. Throws CheckpointRunning. */
  filesAt(dataDirectory: string, catalogId: string, position: FilePosition): Promise<readonly CatalogFile[]>;
}

/** The first `bytes` bytes of a file. */
export interface CatalogFile {
  /** Relative to the data directory, separated by `/`. */
  readonly path: string;
  readonly bytes: number;
}

/** Where positions are recorded. */
export interface PositionRecords {
  load(): Promise<ReadonlyMap<string, RecordedPosition>>;
  /** Whether the catalog contains nothing that would have to be in a file. */
  isEmpty(catalogId: string): Promise<boolean>;
  save(positions: ReadonlyMap<string, RecordedPosition>): Promise<void>;
}
