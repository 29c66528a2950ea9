// Parts of a table as Parquet files, for backup and restore: which rows are in which part, the fingerprint that shows whether a part
// changed, and how values are stored that Parquet has no type for.
import type { ColumnDefinition } from '../../../model/records.ts';
import { holdsType, isNested, type LogicalType } from '../../../model/types.ts';
import type { PartToRestore, SnapshotTable, TablePart } from '../../port/snapshot.ts';
import { qualifiedTable, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { nameList } from '../sql/table_ddl.ts';
import { duckdbType } from '../types/type_mapping.ts';

/** Row ids per part, which DuckDB assigns in order: 64 row groups. Changing the number invalidates all fingerprints. */
const rowsPerPart = 64 * 122_880;
/** Of a table that is copied at once: a part is written while the one before is read. */
const copiedRowsPerPart = 8 * 122_880;
const rowId = 'rowid';

/** A column named rowid hides the row ids: such a table is a single part. */
const hasParts = (columns: readonly ColumnDefinition[]) => !columns.some(({ name }) => name.toLowerCase() === rowId);

/**
 * Count, sum and XOR over the hashes of rows. The hash of all columns is hashed again: without that, rows that swap a value would
 * have the same XOR, and often the same sum.
 */
export function partsText(table: string, columns: readonly ColumnDefinition[]): string {
  const hash = `hash(hash(${columns.map(hashArgument).join(', ')}))`;
  const part = hasParts(columns) ? `${rowId} // ${rowsPerPart}` : '0';
  return (
    `SELECT part, count(*), sum(h::HUGEINT)::VARCHAR, bit_xor(h)::VARCHAR ` +
    `FROM (SELECT ${part} AS part, ${hash} AS h FROM ${table}) GROUP BY part ORDER BY part`
  );
}

/** Without fingerprints, which need a read of all columns. */
export function copiedPartsText(table: string, columns: readonly ColumnDefinition[]): string {
  const part = hasParts(columns) ? `${rowId} // ${copiedRowsPerPart}` : '0';
  // The table, or one of its columns, may have any name.
  return `SELECT ${part}, count(*), 0, 0 FROM ${table} GROUP BY 1 ORDER BY 1`;
}

export function partOf(row: readonly unknown[], version: string): TablePart {
  const [part, rows, sum, xor] = row.map(String);
  return { part: Number(part), rows: Number(rows), fingerprint: [version, rowsPerPart, sum, xor].join(' ') };
}

/** Distinguishes values that have the same hash in the engine: 0.0 and -0.0; lists that are null, empty, or contain a null. */
function hashArgument({ name, type }: ColumnDefinition): string {
  const column = quoteIdentifier(name);
  if (type.kind === 'FLOAT' || type.kind === 'DOUBLE') return `${column}, signbit(${column})`;
  return isNested(type) ? `${column}::VARCHAR` : column;
}

export function writePartText(
  catalog: string,
  { database, table, columns, isCopied = false }: SnapshotTable,
  part: number,
  path: string,
): string {
  const select = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name);
    // Not all readers know the type of Parquet.
    if (isCopied && type.kind === 'UUID') return `${column}::VARCHAR AS ${column}`;
    return isStorable(type) ? column : `${column}::${duckdbType(storedType(type))} AS ${column}`;
  });
  const from = qualifiedTable({ catalog: { id: '', name: catalog }, database, table });
  const length = isCopied ? copiedRowsPerPart : rowsPerPart;
  const first = part * length;
  const where = hasParts(columns) ? ` WHERE ${rowId} >= ${first} AND ${rowId} < ${first + length}` : '';
  const compression = isCopied ? 'snappy' : 'zstd';
  return `COPY (SELECT ${select.join(', ')} FROM ${from}${where}) TO ${quoteLiteral(path)} (FORMAT parquet, COMPRESSION ${compression})`;
}

export function readPartText(
  { table, columns, isOfOther = false }: Pick<PartToRestore, 'table' | 'columns' | 'isOfOther'>,
  path: string,
): string {
  const select = columns.map(({ name, type }) => {
    const column = quoteIdentifier(name);
    return isOfOther && type.kind === 'BINARY' ? `from_base64(${column})` : `${column}::${duckdbType(type)}`;
  });
  const names = nameList(columns.map(({ name }) => name));
  return `INSERT INTO ${qualifiedTable(table)} (${names}) SELECT ${select.join(', ')} FROM read_parquet(${quoteLiteral(path)})`;
}

/** Parquet has no 128-bit integer type, and the engine would write a double. */
const isStorable = (type: LogicalType): boolean => !holdsType(type, ({ kind }) => kind === 'LARGEINT');

function storedType(type: LogicalType): LogicalType {
  switch (type.kind) {
    case 'LARGEINT':
      return { kind: 'STRING' };
    case 'ARRAY':
      return { kind: 'ARRAY', element: storedType(type.element) };
    case 'MAP':
      return { kind: 'MAP', key: storedType(type.key), value: storedType(type.value) };
    case 'STRUCT':
      return { kind: 'STRUCT', fields: type.fields.map((field) => ({ ...field, type: storedType(field.type) })) };
    default:
      return type;
  }
}
