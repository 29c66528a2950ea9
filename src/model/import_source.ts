// The port of `tabularium import`: a database from which tables are read. Each kind of source is an implementation of its own; the command
// knows none of them.
import type { LogicalType } from './types.ts';

export interface SourceColumn {
  readonly name: string;
  /** A type that holds every value of the column, now: see `ImportSource.read`. */
  readonly type: LogicalType;
  readonly nullable: boolean;
  /** A SQL literal. */
  readonly defaultValue?: string | undefined;
  readonly comment?: string | undefined;
}

export interface SourceTable {
  readonly name: string;
  readonly comment?: string | undefined;
  readonly columns: readonly SourceColumn[];
  readonly primaryKey: readonly string[];
  readonly uniqueKey: readonly string[];
  /** Of the rows, exact or an estimate; undefined: unknown. */
  readonly rowCount?: number | undefined;
}

export interface SourceView {
  readonly name: string;
  /** The query, without CREATE VIEW. */
  readonly sql: string;
  readonly comment?: string | undefined;
}

/** Something of the source that is not in the copy, or is something else there. */
export interface NotCarried {
  /** The object: `orders`, or `orders.id`. */
  readonly object: string;
  /** What of it: `type`, `default`, `foreign key`, `index`, ... */
  readonly kind: string;
  /** What is lost, and what is there instead. */
  readonly text: string;
}

export interface SourceDatabase {
  readonly tables: readonly SourceTable[];
  readonly views: readonly SourceView[];
  readonly notCarried: readonly NotCarried[];
}

/**
 * The rows of a table as texts, in batches of bounded size. A value is null or its text: booleans `true` and `false`; numbers in decimal,
 * decimals with all digits of their scale; floats as JavaScript writes them; dates and times as in JSON (rest-standard B7); BINARY in base64; nested
 * values as JSON, in which BIGINT, LARGEINT and DECIMAL are strings; all others as they are.
 */
export type TextRows = AsyncIterable<readonly (readonly (string | null)[])[]>;

export interface ImportSource {
  /** Without a password. */
  readonly name: string;
  /** Reads the definitions, and from the rows which types hold all values. */
  read(signal: AbortSignal): Promise<SourceDatabase>;
  /** `table`: of the result of `read`. */
  rows(table: SourceTable, signal: AbortSignal): TextRows;
  close(): Promise<void>;
}

export interface SourceOptions {
  /** The schema whose tables are read; by default the main one. */
  readonly schema?: string | undefined;
  /** Only these tables; undefined: all. Views and what depends on tables are read if it is undefined. */
  readonly tables?: readonly string[] | undefined;
}

/** Opens a file for reading. Throws OperatorError, if it cannot be read, is damaged, encrypted, or in use by another process. */
export type OpenFileSource = (file: string, options: SourceOptions) => Promise<ImportSource>;
