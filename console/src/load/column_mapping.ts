// How the columns of a file become those of an existing table: which is the source of which, and whether its values fit.
import { jsonForms, parseType, type TypeKind } from '../../../src/model/types.ts';
import type { FileColumn, InferredFile } from './load_session.ts';

export interface TableColumn {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly defaultValue: string | null;
  readonly isKey: boolean;
}

/** `mayFail`: only some values of the type of the file are values of the type of the table. */
export type Fit = 'same' | 'converted' | 'mayFail' | 'mismatch' | 'default' | 'missing';

export interface MappedColumn {
  readonly column: TableColumn;
  /** The name in the file; null: the column gets its default. */
  readonly source: string | null;
  readonly fit: Fit;
}

/** The sources that the user has chosen, by the name of the column of the table. */
export type ChosenSources = Readonly<Record<string, string | null>>;

/** Columns are matched by name, whatever their case; those of a file without names by position. */
export function mapColumns(
  columns: readonly TableColumn[],
  { columns: inFile, csv }: InferredFile,
  chosen: ChosenSources,
): readonly MappedColumn[] {
  const byName = new Map(inFile.map((column) => [column.source.toLowerCase(), column]));
  const bySource = new Map(inFile.map((column) => [column.source, column]));
  return columns.map((column, i) => {
    const matched = csv.header === false ? inFile[i] : byName.get(column.name.toLowerCase());
    const choice = chosen[column.name];
    const found = choice === undefined ? matched : choice === null ? undefined : bySource.get(choice);
    return { column, source: found?.source ?? null, fit: fitOf(found, column) };
  });
}

/** Columns of the file that are the source of none. */
export function unusedColumns(mapped: readonly MappedColumn[], { columns }: InferredFile): readonly string[] {
  const used = new Set(mapped.map(({ source }) => source));
  return columns.flatMap(({ source }) => (used.has(source) ? [] : [source]));
}

function fitOf(from: FileColumn | undefined, { type, nullable, defaultValue }: TableColumn): Fit {
  if (!from) return nullable || defaultValue !== null ? 'default' : 'missing';
  return from.type === type ? 'same' : typeFit(parseType(from.type).kind, parseType(type).kind);
}

/** From the narrowest to the widest. */
const numberKinds: readonly TypeKind[] = [
  'TINYINT',
  'SMALLINT',
  'INT',
  'BIGINT',
  'LARGEINT',
  'DECIMAL',
  'FLOAT',
  'DOUBLE',
];
const timeKinds: ReadonlySet<TypeKind> = new Set(['DATE', 'DATETIME', 'TIMESTAMPTZ']);
const nestedForms: ReadonlySet<string> = new Set(['json', 'array', 'entries', 'object']);

function typeFit(from: TypeKind, to: TypeKind): Fit {
  if (from === to) return ['DECIMAL', 'CHAR', 'VARCHAR'].includes(to) ? 'mayFail' : 'converted';
  if (to === 'STRING') return 'converted';
  if (jsonForms[from] === 'string' || jsonForms[to] === 'string') return 'mayFail';
  if (numberKinds.includes(from) && numberKinds.includes(to))
    return numberKinds.indexOf(from) < numberKinds.indexOf(to) && to !== 'DECIMAL' ? 'converted' : 'mayFail';
  if (timeKinds.has(from) && timeKinds.has(to)) return 'converted';
  return nestedForms.has(jsonForms[from]) || nestedForms.has(jsonForms[to]) ? 'mayFail' : 'mismatch';
}

/** What the user should know about the source of a column. */
export function fitText({ column: { type, defaultValue }, fit }: MappedColumn, from: string | undefined): string {
  switch (fit) {
    case 'same':
      return 'Same type';
    case 'converted':
      return `${from} is converted`;
    case 'mayFail':
      return `${from}: a row whose value is no ${type} is rejected`;
    case 'mismatch':
      return `${from} does not match ${type}`;
    case 'default':
      return defaultValue === null ? 'NULL in each row' : `${defaultValue} in each row`;
    case 'missing':
      return 'Needs a source: it allows no NULL and has no default';
  }
}
