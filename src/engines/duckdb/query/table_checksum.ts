// The checksums of a table (model/table_checksum.ts) as one statement. Texts with few different values are hashed once for each of these,
// because MD5 takes a microsecond for each value.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ColumnDefinition } from '../../../model/records.ts';
import {
  type ColumnChecksum,
  checksumInfinity,
  checksumNaN,
  checksumP,
  checksumQ,
  isBeyondP,
  nestedText as signs,
  type TableChecksum,
} from '../../../model/table_checksum.ts';
import { isNested, type LogicalType } from '../../../model/types.ts';
import type { TableToSum } from '../../port/refs.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';

/** Precision up to which a DECIMAL times ten to its scale fits into the widest decimal. */
const multipliedPrecisionMax = 18;
/** A column whose values repeat at least so often is grouped before it is hashed. */
const repetitionsMin = 4;

export async function checksumTable(connection: DuckDBConnection, work: TableToSum): Promise<TableChecksum> {
  const table = qualifiedTable(work);
  const { columns } = work;
  const hashed = columns.filter(({ type }) => isHashed(type));
  const counts = hashed.map(({ name }) => `approx_count_distinct(${quoteIdentifier(name)})`);
  const plain = columns.filter(({ type }) => !isHashed(type));
  const sums = plain.flatMap(({ name, type }, i) => [`count(${quoteIdentifier(name)})`, ...sumsOfKind(`n${i}`, type)]);
  const narrow = plain.flatMap(({ type }, i) => (isNarrow(type) ? [`min(n${i})`, `max(n${i})`] : []));
  const numbers = plain.map(({ name, type }, i) => `${numberOf(quoteIdentifier(name), type)} AS n${i}`);
  const from = numbers.length === 0 ? table : `(SELECT *, ${numbers.join(', ')} FROM ${table})`;
  // One transaction: all sums are of the same rows.
  await connection.run('BEGIN TRANSACTION READ ONLY');
  try {
    const [row = []] = await rowsOf(
      connection,
      `SELECT ${['count(*)', ...sums, ...counts, ...narrow].join(', ')} FROM ${from}`,
    );
    const rows = Number(row[0]);
    const found = new Map<string, ColumnChecksum>();
    const extremes = row.slice(1 + sums.length + counts.length);
    for (const [i, { name, type }] of plain.entries()) {
      const values = row.slice(1 + 4 * i, 5 + 4 * i);
      const isBeyond = isNarrow(type) && extremes.splice(0, 2).some((n) => isBeyondP(String(n ?? 0)));
      if (isBeyond)
        values[1] = (await rowsOf(connection, `SELECT sum(n${i} % ${checksumP}) FROM ${from}`))[0]?.[0] ?? 0n;
      found.set(name, toChecksum(rows, values));
    }
    for (const [i, column] of hashed.entries()) {
      const isRepeated = Number(row[1 + sums.length + i]) * repetitionsMin < rows;
      const [sum = []] = await rowsOf(connection, isRepeated ? groupedText(table, column) : hashedText(table, column));
      found.set(column.name, toChecksum(rows, sum));
    }
    return { rows, columns: columns.map(({ name }) => found.get(name) ?? { nulls: rows, sums: ['0', '0', '0'] }) };
  } finally {
    await connection.run('ROLLBACK');
  }
}

function toChecksum(rows: number, [count, ...sums]: readonly unknown[]): ColumnChecksum {
  return { nulls: rows - Number(count), sums: sums.map((sum) => String(sum ?? 0)) };
}

const squared = (n: string) => `((${n} % ${checksumP}) * (${n} % ${checksumP})) % ${checksumP}`;
const sumsOf = (n: string) => [`${n} % ${checksumP}`, `${n} % ${checksumQ}`, squared(n)].map((each) => `sum(${each})`);

/** Numbers of 32 bits, whose squares have room in 64. */
const isNarrow = ({ kind }: LogicalType): boolean => kind === 'INT' || kind === 'DATE';

/** The sums with fewer divisions, where the numbers are small. Those of narrow numbers are right unless one of them is beyond P. */
function sumsOfKind(n: string, type: LogicalType): string[] {
  // Their squares are below P.
  if (type.kind === 'TINYINT' || type.kind === 'SMALLINT') return [`sum(${n})`, `sum(${n})`, `sum(${n} * ${n})`];
  return isNarrow(type) ? [`sum(${n})`, `sum(${n})`, `sum((${n} * ${n}) % ${checksumP})`] : sumsOf(n);
}

function hashedText(table: string, { name, type }: ColumnDefinition): string {
  const column = quoteIdentifier(name);
  return `SELECT count(n), ${sumsOf('n').join(', ')} FROM (SELECT ${numberOf(column, type)} AS n FROM ${table})`;
}

function groupedText(table: string, { name, type }: ColumnDefinition): string {
  const column = quoteIdentifier(name);
  const groups = `SELECT ${column}, count(*) AS times FROM ${table} WHERE ${column} IS NOT NULL GROUP BY ${column}`;
  const sums = [`n % ${checksumP}`, `n % ${checksumQ}`, squared('n')].map((each) => `sum((${each})::HUGEINT * times)`);
  return `SELECT coalesce(sum(times), 0), ${sums.join(', ')} FROM (SELECT times, ${numberOf(column, type)} AS n FROM (${groups}))`;
}

const isHashed = (type: LogicalType): boolean =>
  type.kind === 'CHAR' ||
  type.kind === 'VARCHAR' ||
  type.kind === 'STRING' ||
  type.kind === 'BINARY' ||
  type.kind === 'JSON' ||
  type.kind === 'UUID' ||
  isNested(type);

function numberOf(value: string, type: LogicalType): string {
  switch (type.kind) {
    case 'BOOLEAN':
    case 'TINYINT':
    case 'SMALLINT':
    case 'INT':
      return `${value}::BIGINT`;
    case 'BIGINT':
    case 'LARGEINT':
      return value;
    case 'FLOAT':
    case 'DOUBLE':
      return `CASE WHEN isnan(${value}) THEN ${checksumNaN}::BIGINT ELSE ${value}::DOUBLE::BIT::BIGINT END`;
    case 'DECIMAL':
      if (type.scale === 0) return `${value}::HUGEINT`;
      return type.precision <= multipliedPrecisionMax
        ? `(${value}::DECIMAL(38,${type.scale}) * 1${'0'.repeat(type.scale)})::HUGEINT::BIGINT`
        : `replace(${value}::VARCHAR, '.', '')::HUGEINT`;
    case 'DATE':
      return `(${value} - DATE '1970-01-01')::BIGINT`;
    case 'DATETIME':
    case 'TIMESTAMPTZ': {
      const infinite = `WHEN ${value} > '2000-01-01' THEN ${checksumInfinity} WHEN ${value} IS NOT NULL THEN -${checksumInfinity}`;
      return `CASE WHEN isfinite(${value}) THEN epoch_us(${value}) ${infinite} END`;
    }
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'BINARY':
      return `md5_number_lower(${value})`;
    case 'JSON':
    case 'UUID':
      return `md5_number_lower(${value}::VARCHAR)`;
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return `md5_number_lower(${nestedTextOf(value, type, 0)})`;
  }
}

/** The text of a value in a nested one; null if the value is null. `depth`: distinguishes the variables of nested functions. */
function nestedTextOf(value: string, type: LogicalType, depth: number): string {
  const inner = (each: string, of: LogicalType) => `coalesce(${nestedTextOf(each, of, depth + 1)}, '${signs.null}')`;
  const x = `x${depth}`;
  switch (type.kind) {
    case 'ARRAY': {
      const items = `list_transform(${value}, lambda ${x}: ${inner(x, type.element)} || '${signs.item}')`;
      return joined(value, items, signs.array);
    }
    case 'MAP': {
      const entry = `${inner(`${x}.key`, type.key)} || '${signs.entry}' || ${inner(`${x}.value`, type.value)} || '${signs.item}'`;
      return joined(value, `list_transform(map_entries(${value}), lambda ${x}: ${entry})`, signs.map);
    }
    case 'STRUCT': {
      const fields = type.fields.map((field) => {
        const each = `struct_extract(${value}, '${field.name.replaceAll("'", "''")}')`;
        return `${inner(each, field.type)} || '${signs.item}'`;
      });
      const [open, close] = signs.struct;
      return `CASE WHEN ${value} IS NULL THEN NULL ELSE '${open}' || ${[...fields, `'${close}'`].join(' || ')} END`;
    }
    case 'BINARY':
      return `(2 * octet_length(${value}))::VARCHAR || '${signs.length}' || lower(hex(${value}))`;
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'JSON':
    case 'UUID':
      return `strlen(${value}::VARCHAR)::VARCHAR || '${signs.length}' || ${value}::VARCHAR`;
    default:
      return `(${numberOf(value, type)})::VARCHAR`;
  }
}

function joined(value: string, texts: string, [open, close]: string): string {
  return `CASE WHEN ${value} IS NULL THEN NULL ELSE '${open}' || coalesce(array_to_string(${texts}, ''), '') || '${close}' END`;
}
