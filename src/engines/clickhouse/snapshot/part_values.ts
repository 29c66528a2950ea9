// The values of a table in the files of a backup, which the servers write and read. What Parquet holds exactly is a value there; anything else is a
// text, of which a server makes the same value.
import type { ColumnDefinition } from '../../../model/records.ts';
import { holdsType, isNested, type LogicalType } from '../../../model/types.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { needsReading, type Reader, valueOfTupleText } from '../types/read_values.ts';
import { serverType } from '../types/type_mapping.ts';

/** Differs if the values of equal rows are written otherwise. */
export const valuesVersion = 1;

const isBinary = ({ kind }: LogicalType): boolean => kind === 'BINARY';

/** The columns of the file, as expressions of the columns of the table. */
export const writtenValues = (columns: readonly ColumnDefinition[]): readonly string[] =>
  columns.map(({ name, type }) => `${written(quoteIdentifier(name), type)} AS ${quoteIdentifier(name)}`);

function written(column: string, type: LogicalType): string {
  // The server writes texts within a tuple so that it can read them again, and lists, maps and structs of nothing else.
  if (isNested(type))
    return holdsType(type, isBinary) ? `hex(toString(tuple(${column})))` : `toString(tuple(${column}))`;
  switch (type.kind) {
    case 'LARGEINT':
    case 'UUID':
      return `toString(${column})`;
    // Texts in the file are in UTF-8.
    case 'BINARY':
      return `hex(CAST(${column} AS Nullable(String)))`;
    case 'JSON':
      return `CAST(${column} AS Nullable(String))`;
    default:
      return column;
  }
}

/** What the columns of the file are read as. */
export const fileStructure = (columns: readonly ColumnDefinition[]): string =>
  columns.map(({ name, type }) => `${quoteIdentifier(name)} ${fileType(type)}`).join(', ');

function fileType(type: LogicalType): string {
  switch (type.kind) {
    case 'LARGEINT':
    case 'UUID':
    case 'BINARY':
    case 'JSON':
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return 'Nullable(String)';
    default:
      return serverType(type, true);
  }
}

/** The columns of the table, as expressions of those of the file. */
export const readValues = (columns: readonly ColumnDefinition[], reader: Reader): readonly string[] =>
  columns.map(({ name, type, nullable }) => read(quoteIdentifier(name), type, nullable, reader));

function read(column: string, type: LogicalType, isNullable: boolean, reader: Reader): string {
  if (isNested(type)) {
    const isHex = holdsType(type, isBinary);
    const written = `assumeNotNull(${column})`;
    if (needsReading(type, isNullable, reader))
      return valueOfTupleText(type, isNullable, isHex ? written : `hex(${written})`);
    const text = isHex ? `unhex(${written})` : written;
    return `tupleElement(CAST(${text} AS Tuple(${serverType(type, isNullable)})), 1)`;
  }
  switch (type.kind) {
    case 'BINARY':
      return `unhex(${column})`;
    case 'LARGEINT':
    case 'UUID':
      return `CAST(${column} AS ${serverType(type, true)})`;
    default:
      return column;
  }
}
