// Maps the columns of a file to the columns of a table: by name, or as the caller specifies.
import { foldName } from '../../model/names.ts';
import type { ColumnDefinition, TableDefinition } from '../../model/records.ts';
import type { LogicalType } from '../../model/types.ts';
import type { DataFile, InferColumn, LoadColumn } from '../port/load.ts';
import { dataInvalid, invalidColumns } from './load_failures.ts';

/** A column of the table and where its value comes from. `Source`: a column of a file, as the engine describes it. */
export interface SourcedColumn<Source> {
  readonly column: ColumnDefinition;
  /** The column of the file; undefined for an expression. */
  readonly source: Source | undefined;
  readonly expression: string | undefined;
}

interface MappedFile<Source> {
  readonly format: DataFile['format'];
  readonly columns: readonly Source[];
  /** A column that the file may have although the sampled rows lack it. */
  readonly missing: (name: string) => Source;
}

export function byName<T extends { readonly name: string }>(all: readonly T[]): (name: string) => T | undefined {
  const folded = new Map(all.map((column) => [foldName(column.name), column]));
  return (name) => folded.get(foldName(name));
}

/** Without the columns that the file does not have. */
export function loadedColumns(
  fileColumns: readonly { readonly name: string }[],
  columns: readonly InferColumn[],
): LoadColumn[] {
  const inFile = byName(fileColumns);
  return columns
    .filter(({ name, source, expression }) => expression !== undefined || inFile(source ?? name))
    .map(({ name, source, expression }) => ({ name, source, expression }));
}

/** `types`: by the name of the column in the file. Throws INVALID_PARAMETER if the file lacks one of them. */
export function typesByName(
  fileColumns: readonly { readonly name: string }[],
  types: Readonly<Record<string, LogicalType>>,
): (name: string) => LogicalType | undefined {
  const inFile = byName(fileColumns);
  const unknown = Object.keys(types).find((name) => !inFile(name));
  if (unknown !== undefined) throw invalidColumns('/types', `the file has no column ${JSON.stringify(unknown)}`);
  const given = new Map(Object.entries(types).map(([name, type]) => [foldName(name), type]));
  return (name) => given.get(foldName(name));
}

/** Throws DATA_INVALID or INVALID_PARAMETER if file and table do not match. */
export function sourcedColumns<Source extends { readonly name: string }>(
  file: MappedFile<Source>,
  definition: Pick<TableDefinition, 'columns'>,
  columns: readonly LoadColumn[] | undefined,
): SourcedColumn<Source>[] {
  const columnOf = byName(definition.columns);
  const sourceOf = byName(file.columns);
  if (columns) {
    return columns.map(({ name, source, expression }, i) => {
      const column = columnOf(name);
      if (!column) throw invalidColumns(`/columns/${i}/name`, `the table has no column ${JSON.stringify(name)}`);
      const found = expression === undefined ? sourceOf(source ?? name) : undefined;
      if (expression === undefined && !found)
        throw invalidColumns(`/columns/${i}/source`, `the file has no column ${JSON.stringify(source ?? name)}`);
      return { column, source: found, expression };
    });
  }
  const unknown = file.columns.find(({ name }) => !columnOf(name));
  if (unknown) {
    const message = `the file has a column ${JSON.stringify(unknown.name)} that the table does not have; list the columns to load in \`columns\``;
    throw dataInvalid(message, { column: unknown.name });
  }
  // Later lines of a JSON file may have keys that the sampled lines lack.
  const isSparse = file.format === 'json' || file.format === 'ndjson';
  return definition.columns.flatMap((column) => {
    const source = sourceOf(column.name);
    if (!source && (!isSparse || column.defaultValue !== undefined)) return [];
    return [{ column, source: source ?? file.missing(column.name), expression: undefined }];
  });
}
