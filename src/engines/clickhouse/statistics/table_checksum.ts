// The checksums of a table (model/table_checksum.ts) as expressions over its Distributed table: the servers add up those of their shards.
import type { ColumnDefinition } from '../../../model/records.ts';
import {
  type ColumnChecksum,
  checksumNaN,
  checksumP,
  checksumQ,
  isBeyondP,
  nestedText as signs,
  type TableChecksum,
} from '../../../model/table_checksum.ts';
import { isNested, type LogicalType } from '../../../model/types.ts';
import type { TableToSum } from '../../port/refs.ts';
import type { WarehouseContext } from '../context.ts';
import { namesOf } from '../names.ts';
import { columnsBeforeAliases, readSettings } from '../query/statement_settings.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { serverType } from '../types/type_mapping.ts';

const checksumMsMax = 24 * 3600 * 1000;
/** Statements of callers have it; with it, sums of several shards fail. */
const settings = { ...columnsBeforeAliases, aggregate_functions_null_for_empty: 0 };
/** The text of a statement and the depth of its expressions stay small. */
const columnsPerStatement = 50;

/** A column whose values repeat at least so often is grouped before it is hashed. */
const repetitionsMin = 4;
/** Sums of numbers up to 2^32 have room for so many rows in 64 bits. */
const rowsOfInt64 = 2 ** 31;

export async function checksumTable(
  { cluster }: WarehouseContext,
  { catalog, database, table, columns }: TableToSum,
  signal: AbortSignal,
): Promise<TableChecksum> {
  const name = { catalog: catalog.name, database, table };
  const from = qualifiedName(namesOf(name));
  const read = async (values: readonly string[], source: string): Promise<string[]> => {
    const sql = `SELECT ${values.map((value, i) => `toString(${value}) AS s${i}`).join(', ')} FROM ${source}`;
    const call = { sql, timeoutMs: checksumMsMax, isOfCaller: true, signal };
    const [row] = await cluster.onAny((server) =>
      server.rows<Readonly<Record<string, string>>>({
        ...call,
        settings: { ...settings, ...readSettings(cluster, server, [name]) },
      }),
    );
    if (!row) throw new Error('an aggregation returned no row');
    return values.map((_, i) => row[`s${i}`] ?? '0');
  };
  const rows = Number((await read(['count()'], from))[0]);
  const found: ColumnChecksum[] = [];
  for (let start = 0; start < columns.length; start += columnsPerStatement) {
    const some = columns.slice(start, start + columnsPerStatement);
    const texts = some.filter(({ type }) => isText(type));
    const distinct = texts.length === 0 ? [] : await read(texts.map(distinctOf), from);
    const isRepeated = (column: ColumnDefinition) =>
      texts.includes(column) && Number(distinct[texts.indexOf(column)]) * repetitionsMin < rows;
    const others = some.filter((column) => !isRepeated(column));
    const isWide = rows > rowsOfInt64;
    const wanted = others.flatMap((column) => [
      ...sumsOf(column, isWide),
      ...(isNarrow(column.type) ? extremesOf(column) : []),
    ]);
    const sums = wanted.length === 0 ? [] : await read(wanted, from);
    for (const column of some) {
      const [count, ...values] = isRepeated(column) ? await read(...groupedSums(column, from)) : sums.splice(0, 4);
      const isBeyond = isNarrow(column.type) && sums.splice(0, 2).some(isBeyondP);
      if (isBeyond) values[0] = (await read([remaindersOf(column)], from))[0] ?? '0';
      found.push({ nulls: rows - Number(count), sums: values });
    }
  }
  return { rows, columns: found };
}

const isText = ({ kind }: LogicalType): boolean => kind === 'CHAR' || kind === 'VARCHAR' || kind === 'STRING';

/** About how many different values there are. */
const distinctOf = ({ name }: ColumnDefinition): string => `uniqCombined(12)(${quoteIdentifier(name)})`;

/** The number of values and the three sums of a column of texts, of which each different one is hashed once; and what they are read from. */
function groupedSums({ name, type, nullable }: ColumnDefinition, from: string): [string[], string] {
  const column = quoteIdentifier(name);
  const where = nullable ? ` WHERE isNotNull(${column})` : '';
  const groups = `(SELECT ${column} AS v, count() AS times FROM ${from}${where} GROUP BY ${column})`;
  const hashed = `(SELECT times, ${numberOf(presentValue('v', type, nullable), type)} AS n FROM ${groups})`;
  const mod = (divisor: bigint) => `(n % toUInt64(${quoteLiteral(String(divisor))}))`;
  const square = `((${mod(checksumP)} * ${mod(checksumP)}) % toUInt64(${quoteLiteral(String(checksumP))}))`;
  const sums = [mod(checksumP), mod(checksumQ), square].map((each) => `sum(toInt128(${each}) * toInt128(times))`);
  return [['sum(times)', ...sums], hashed];
}

/** The number of values, and the three sums. `isWide`: 64 bits are too few for the sum of so many rows. */
function sumsOf({ name, type, nullable }: ColumnDefinition, isWide: boolean): string[] {
  const column = quoteIdentifier(name);
  const isPresent = nullable ? `isNotNull(${column})` : '1';
  const sum = (value: string, width: 'toInt64' | 'toInt128') =>
    nullable ? `sumIf(${width}(${value}), ${isPresent})` : `sum(${width}(${value}))`;
  const narrow = isWide ? 'toInt128' : 'toInt64';
  const wide = (value: string) => (isWide ? `toInt128(${value})` : value);
  const integer = widthOf(type);
  const n = `${integer}(${numberOf(presentValue(column, type, nullable), type)})`;
  const mod = (divisor: bigint) => `(${n} % ${integer}(${quoteLiteral(String(divisor))}))`;
  const square = `((${mod(checksumP)} * ${mod(checksumP)}) % ${integer}(${quoteLiteral(String(checksumP))}))`;
  const count = nullable ? `countIf(${isPresent})` : 'count()';
  if (type.kind === 'TINYINT' || type.kind === 'SMALLINT') {
    // Their squares are below P.
    return [count, sum(n, narrow), sum(n, narrow), sum(`${n} * ${n}`, narrow)];
  }
  if (isNarrow(type)) {
    const number = narrowNumber(column, type);
    const remainder = `toUInt64(${number} * ${number}) % toUInt64(${checksumP})`;
    // The first is right unless a number is beyond P. Sums leave out nulls.
    return [`count(${column})`, `sum(${wide(number)})`, `sum(${wide(number)})`, `sum(${wide(remainder)})`];
  }
  return [count, sum(mod(checksumP), narrow), sum(mod(checksumQ), 'toInt128'), sum(square, narrow)];
}

/** Numbers of 32 bits, whose squares have room in 64. */
const isNarrow = ({ kind }: LogicalType): boolean => kind === 'INT' || kind === 'DATE';

const narrowNumber = (column: string, type: LogicalType): string =>
  `toInt64(${type.kind === 'DATE' ? `toInt32(${column})` : column})`;

/** The least and the greatest number of a column of narrow ones. */
function extremesOf({ name, type }: ColumnDefinition): string[] {
  const number = narrowNumber(quoteIdentifier(name), type);
  return [`min(${number})`, `max(${number})`];
}

const remaindersOf = ({ name, type }: ColumnDefinition): string =>
  `sum(toInt128(${narrowNumber(quoteIdentifier(name), type)} % toInt64(${checksumP})))`;

/** Operands have one type, because a remainder of operands with and without sign would lose the sign. */
function widthOf(type: LogicalType): 'toInt64' | 'toInt128' | 'toUInt64' {
  switch (type.kind) {
    case 'LARGEINT':
      return 'toInt128';
    case 'DECIMAL':
      return isLong(type) ? 'toInt128' : 'toInt64';
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'BINARY':
    case 'JSON':
    case 'UUID':
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return 'toUInt64';
    default:
      return 'toInt64';
  }
}

/** Whether 64 bits are too few; remainders of 128 bits take many times as long. */
const isLong = ({ precision }: { readonly precision: number }): boolean => precision > 18;

/** A value that is not null; of null, any value. */
function presentValue(value: string, type: LogicalType, nullable: boolean): string {
  if (!nullable) return value;
  return isNested(type)
    ? `variantElement(${value}, ${quoteLiteral(serverType(type, false))})`
    : `assumeNotNull(${value})`;
}

const hashOf = (bytes: string): string => `reinterpretAsUInt64(substring(MD5(${bytes}), 9, 8))`;

function numberOf(value: string, type: LogicalType): string {
  switch (type.kind) {
    case 'FLOAT':
    case 'DOUBLE':
      return `if(isNaN(${value}), toInt64(${checksumNaN}), reinterpretAsInt64(toFloat64(${value})))`;
    case 'DECIMAL':
      return isLong(type)
        ? `reinterpretAsInt128(toDecimal128(${value}, ${type.scale}))`
        : `reinterpretAsInt64(toDecimal64(${value}, ${type.scale}))`;
    case 'DATE':
      return `toInt32(${value})`;
    case 'DATETIME':
    case 'TIMESTAMPTZ':
      return `toUnixTimestamp64Micro(${value})`;
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'BINARY':
    case 'JSON':
    case 'UUID':
      return hashOf(`toString(${value})`);
    case 'ARRAY':
    case 'MAP':
    case 'STRUCT':
      return hashOf(nestedTextOf(value, type, 0));
    default:
      return value;
  }
}

/** `depth`: distinguishes the parameters of nested functions. */
function nestedTextOf(value: string, type: LogicalType, depth: number): string {
  const inner = (each: string, of: LogicalType) =>
    `if(isNull(${each}), '${signs.null}', ${nestedTextOf(presentValue(each, of, true), of, depth + 1)})`;
  const [x, k] = [`x${depth}`, `k${depth}`];
  switch (type.kind) {
    case 'ARRAY':
      return joined(`arrayMap(${x} -> concat(${inner(x, type.element)}, '${signs.item}'), ${value})`, signs.array);
    case 'MAP': {
      const key = nestedTextOf(k, type.key, depth + 1);
      const entry = `concat(${key}, '${signs.entry}', ${inner(x, type.value)}, '${signs.item}')`;
      return joined(`arrayMap((${k}, ${x}) -> ${entry}, mapKeys(${value}), mapValues(${value}))`, signs.map);
    }
    case 'STRUCT': {
      const [open, close] = signs.struct;
      const fields = type.fields.map((field, i) => inner(`tupleElement(${value}, ${i + 1})`, field.type));
      return `concat('${open}', ${fields.map((field) => `${field}, '${signs.item}'`).join(', ')}, '${close}')`;
    }
    case 'BINARY':
      return `concat(toString(2 * length(${value})), '${signs.length}', lower(hex(toString(${value}))))`;
    case 'CHAR':
    case 'VARCHAR':
    case 'STRING':
    case 'JSON':
    case 'UUID':
      return `concat(toString(length(toString(${value}))), '${signs.length}', toString(${value}))`;
    case 'BOOLEAN':
      return `toString(toInt8(${value}))`;
    default:
      return `toString(${numberOf(value, type)})`;
  }
}

const joined = (texts: string, [open, close]: string): string =>
  `concat('${open}', arrayStringConcat(${texts}), '${close}')`;
