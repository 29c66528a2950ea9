// What adapters share of reading the columns of a data file: what a load says of it, and which files and columns are refused.
import { foldName } from '../../model/names.ts';
import type { DataFile, FileLoad, LoadColumn, SchemaInference } from '../port/load.ts';
import { hasLines, lineBytesMax } from './csv_lines.ts';
import { conflictingFormat } from './format_signature.ts';
import { dataInvalid } from './load_failures.ts';

export interface SchemaOptions {
  /** Column names by which a header is recognized. */
  readonly headings: readonly string[];
  /** Names of the first columns of a file without a header. */
  readonly names: readonly string[];
  /** Whether the types are needed; without, they may all be that of texts. */
  readonly isTyped: boolean;
  /** Whether the types are inferred from all rows instead of a sample. */
  readonly readsAllRows?: boolean;
}

export function optionsOfLoad({ definition, columns }: Pick<FileLoad, 'definition' | 'columns'>): SchemaOptions {
  const headings = definition.columns.map(({ name }) => name);
  return {
    headings,
    names: columns ? namesByPosition(columns) : headings,
    isTyped: columns?.some(({ expression }) => expression !== undefined) ?? false,
  };
}

export const optionsOfInference = ({ columns, types = {}, readsAllRows }: SchemaInference): SchemaOptions => ({
  headings: columns?.map(({ name, source }) => source ?? name) ?? Object.keys(types),
  names: namesByPosition(columns ?? []),
  isTyped: true,
  readsAllRows,
});

/** The names of the columns of a file without a header, if the load refers to them by position only. */
const namesByPosition = (columns: readonly LoadColumn[]): readonly string[] =>
  columns.every(({ source, expression }) => source === undefined && expression === undefined)
    ? columns.map(({ name }) => name)
    : [];

/** Throws DATA_INVALID for a file of another format, and for CSV with a line that is too long. */
export async function requireReadable({ path, format }: DataFile): Promise<void> {
  const other = await conflictingFormat(path, format);
  if (other !== undefined) throw dataInvalid(`the file ${other}`);
  if (format === 'csv' && !(await hasLines(path)))
    throw dataInvalid(`the file has a line of more than ${lineBytesMax} bytes`);
}

/** Throws DATA_INVALID for columns that cannot be addressed by name. */
export function requireNames(columns: readonly { readonly name: string }[]): void {
  const seen = new Set<string>();
  for (const { name } of columns) {
    if (name === '') throw dataInvalid('a column of the file has no name');
    if (seen.has(foldName(name))) throw dataInvalid(`the file has two columns named ${JSON.stringify(name)}`);
    seen.add(foldName(name));
  }
}
