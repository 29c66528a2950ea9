// What an engine is told to read from a file into a table, and what it says afterwards. The file is there already and the engine
// may read it; where it came from is query/load_sources.ts'.
import type { ColumnDefinition, TableDefinition } from '../model/records.ts';
import type { LogicalType } from '../model/types.ts';
import type { TableRef } from './refs.ts';

export type DataFormat = 'csv' | 'json' | 'ndjson' | 'parquet';

/** What is absent is found out from the file, or is as RFC 4180 has it. */
export interface CsvOptions {
  readonly delimiter?: string | undefined;
  readonly quote?: string | undefined;
  readonly escape?: string | undefined;
  readonly header?: boolean | undefined;
  readonly nullText?: string | undefined;
  /** Whether the text of null stands for it in quotes too, as it does by default. */
  readonly quotedNulls?: boolean | undefined;
  readonly skipRows?: number | undefined;
  readonly dateFormat?: string | undefined;
  readonly timestampFormat?: string | undefined;
  readonly encoding?: 'utf-8' | 'utf-16' | 'latin-1' | undefined;
  readonly decimalSeparator?: '.' | ',' | undefined;
  readonly comment?: string | undefined;
}

/** Not compressed: a stream that is cut off or that never ends would not be noticed in time by every engine. */
export interface DataFile {
  /** Absolute. */
  readonly path: string;
  readonly format: DataFormat;
  readonly csv: CsvOptions;
  /** What `inferTable` found, so that it is not looked for again. */
  readonly shape?: FileShape | undefined;
}

/** How an engine reads one file: signs and header said, the types in its own words. Valid for the release of the engine that found it. */
export interface FileShape {
  readonly csv: CsvOptions;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
}

/** A column of the table and what it gets: a column of the file, or an expression over the file's columns. */
export interface LoadColumn {
  readonly name: string;
  readonly source?: string | undefined;
  readonly expression?: string | undefined;
}

export interface LoadWork {
  readonly table: TableRef;
  readonly definition: TableDefinition;
  readonly file: DataFile;
  /** Absent: the columns of the file that the table has too, by name. */
  readonly columns?: readonly LoadColumn[] | undefined;
  readonly mode: 'append' | 'replace' | 'upsert';
  /** More rows than this that do not fit fail the load; fewer are left out. */
  readonly errorsMax: number;
  /** Everything is done but kept. */
  readonly dryRun: boolean;
  /** Of a dry run: the table is not there; it is made, filled and gone again. */
  readonly isUnmade?: boolean | undefined;
  /** Absolute: where the rows that were left out are written, one JSON object a line, if there are any. */
  readonly rejectsPath: string;
  /** Unique; a second run with the same step does nothing and says `repeated`. */
  readonly step: string;
}

export interface LoadDone {
  readonly rowsLoaded: number;
  readonly rowsRejected: number;
  readonly repeated: boolean;
}

/** A column of a table to be made; without a type it has that of its source, or of its expression. */
export interface InferColumn extends LoadColumn {
  readonly type?: LogicalType | undefined;
  /** The file need not have it: the table then gives it its default. */
  readonly isOptional?: boolean | undefined;
}

export interface InferWork {
  readonly file: DataFile;
  /** Absent: all columns of the file, as they are called there. */
  readonly columns?: readonly InferColumn[] | undefined;
  /** By the name in the file: what is not left to the file. */
  readonly types?: Readonly<Record<string, LogicalType>> | undefined;
  /** All rows are looked at; else the first ones. */
  readonly isWhole: boolean;
  /** How many rows are shown. */
  readonly rowsMax: number;
}

export interface InferredTable {
  /** In the order of the table, nullable all of them. */
  readonly columns: readonly ColumnDefinition[];
  readonly shape: FileShape;
  /** Which of them are read from the file, as `load` takes it; absent as they were. */
  readonly loaded: readonly LoadColumn[] | undefined;
  /** The first rows that fit, each a JSON array of the values of `columns`. */
  readonly rows: readonly string[];
}
