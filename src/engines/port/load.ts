// Loading a file into a table: the request to the engine and its result. The file is on this server (query/loads/load_sources.ts fetches
// it): the adapter of an engine on this machine lets the engine read it, and that of another one streams it.
import type { ColumnDefinition, TableDefinition } from '../../model/records.ts';
import type { LogicalType } from '../../model/types.ts';
import type { TableRef } from './refs.ts';

export type DataFormat = 'csv' | 'json' | 'ndjson' | 'parquet';

/** Absent options are detected from the file, or are those of RFC 4180. */
export interface CsvOptions {
  readonly delimiter?: string | undefined;
  readonly quote?: string | undefined;
  readonly escape?: string | undefined;
  readonly header?: boolean | undefined;
  readonly nullText?: string | undefined;
  /** Whether the text of null represents null in quotes too, which is the default. */
  readonly quotedNulls?: boolean | undefined;
  readonly skipRows?: number | undefined;
  readonly dateFormat?: string | undefined;
  readonly timestampFormat?: string | undefined;
  readonly encoding?: 'utf-8' | 'utf-16' | 'latin-1' | undefined;
  readonly decimalSeparator?: '.' | ',' | undefined;
  readonly comment?: string | undefined;
}

/** Not compressed: not every engine would notice a truncated or endless stream in time. */
export interface DataFile {
  /** Absolute, on this server. */
  readonly path: string;
  readonly format: DataFormat;
  readonly csv: CsvOptions;
  /** The schema that `inferTable` detected, so that it is not detected again. */
  readonly schema?: DetectedSchema | undefined;
}

/**
 * How an engine reads one file: all CSV options resolved, the types in the engine's own syntax. Valid only for the release of the
 * engine that detected it.
 */
export interface DetectedSchema {
  readonly csv: CsvOptions;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

/** A column of the table and its source: a column of the file, or an expression over the file's columns. */
export interface LoadColumn {
  readonly name: string;
  readonly source?: string | undefined;
  readonly expression?: string | undefined;
}

export interface FileLoad {
  readonly table: TableRef;
  readonly definition: TableDefinition;
  readonly file: DataFile;
  /** Absent: the columns that the file and the table have in common, by name. */
  readonly columns?: readonly LoadColumn[] | undefined;
  readonly mode: 'append' | 'replace' | 'upsert';
  /** If more rows than this are rejected, the load fails; otherwise the rejected rows are left out. */
  readonly errorsMax: number;
  /** The load is executed, then rolled back. */
  readonly dryRun: boolean;
  /** The rows are those of a table with the same columns, and whoever loads them proves that they arrived: the engine need not check their values. */
  readonly isProved?: boolean | undefined;
  /** For a dry run into a table that does not exist: it is created, filled and dropped again. */
  readonly isNewTable?: boolean | undefined;
  /** Absolute path of the adapter's file on this server for the rejected rows, one JSON object per line; written only if there are any. */
  readonly rejectsPath: string;
  /** Unique; a second run with the same step does nothing and returns `repeated`. */
  readonly step: string;
}

export interface FileLoadResult {
  readonly rowsLoaded: number;
  readonly rowsRejected: number;
  readonly repeated: boolean;
}

/** A column of a table to be created; without a type it has that of its source or expression. */
export interface InferColumn extends LoadColumn {
  readonly type?: LogicalType | undefined;
  /** The file may lack the column: the table then gives it its default. */
  readonly isOptional?: boolean | undefined;
}

export interface SchemaInference {
  readonly file: DataFile;
  /** Absent: all columns of the file, under their names in the file. */
  readonly columns?: readonly InferColumn[] | undefined;
  /** Types that are given instead of inferred, by the name of the column in the file. */
  readonly types?: Readonly<Record<string, LogicalType>> | undefined;
  /** Whether the types are inferred from all rows; otherwise from the first ones. */
  readonly readsAllRows: boolean;
  /** How many rows are returned as a preview. */
  readonly rowsMax: number;
}

/** Rows at the beginning of a file, and how many of them do not fit its columns. */
export interface RowSample {
  readonly rows: number;
  readonly rowsRejected: number;
}

export interface InferredTable {
  /** In the order of the table, all nullable. */
  readonly columns: readonly ColumnDefinition[];
  readonly schema: DetectedSchema;
  /** The columns to read from the file, in the form that `load` takes; absent if none were given. */
  readonly loaded: readonly LoadColumn[] | undefined;
  /** The first rows that are not rejected, each a JSON array of the values of `columns`. */
  readonly rows: readonly string[];
  /** Of a preview; undefined where the engine cannot count them at little cost. */
  readonly sample?: RowSample | undefined;
}
