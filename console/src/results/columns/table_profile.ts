// The profile of the columns of a whole table or view, by statements of a few columns each: the first of a group finds nulls, distinct
// values, least and greatest, the second how the values are spread. Large tables are sampled.
import type { Column, Value } from '../../../../src/client/index.ts';
import { isNestedType, isNumberType, isTimeType, quotedName, textOf } from '../grid/value_text.ts';
import type { Bin, ColumnProfile } from './column_profile.ts';
import { binsOfCounts, frequentCount, measureOf, rangeCount } from './column_profile.ts';

type Row = readonly Value[];
/** Runs a statement and returns its rows. */
export type RunStatement = (sql: string) => Promise<readonly Row[]>;

export const groupColumns = 6;
/** A table with more rows is sampled, down to about this many. */
const sampledRowsMax = 5_000_000;
/** Up to here, distinct values are counted exactly. */
const exactRowsMax = 1_000_000;

/** What is read: a name, and how much of it. */
export interface ProfiledTable {
  readonly name: string;
  readonly rowCount: number;
  /** Undefined: all rows. */
  readonly samplePercent: number | undefined;
}

/** `path`: database and table. */
export async function readTable(path: readonly string[], run: RunStatement): Promise<ProfiledTable> {
  const name = path.map(quotedName).join('.');
  const [row] = await run(`SELECT count(*) FROM ${name}`);
  const rowCount = Number(row?.[0] ?? 0);
  const isLarge = rowCount > sampledRowsMax;
  return {
    name,
    rowCount,
    samplePercent: isLarge ? Number(((100 * sampledRowsMax) / rowCount).toPrecision(3)) : undefined,
  };
}

export async function profileColumns(
  table: ProfiledTable,
  columns: readonly Column[],
  run: RunStatement,
): Promise<readonly ColumnProfile[]> {
  const [facts = []] = await run(factsSql(table, columns));
  const found = columns.map((column, i) =>
    factsOf(column, facts.slice(1 + i * factCount), Number(facts[0] ?? 0), table),
  );
  const spread = found.some(({ count, nulls }) => count > nulls) ? await run(spreadSql(table, found)) : [];
  return found.map((fact, i) =>
    profileOf(
      fact,
      spread.filter(([column]) => Number(column) === i),
    ),
  );
}

/** The same rows in each statement of a sample. */
const sourceOf = ({ name, samplePercent }: ProfiledTable): string =>
  samplePercent === undefined ? name : `${name} TABLESAMPLE SYSTEM (${samplePercent} PERCENT) REPEATABLE (1)`;

const hasRange = (type: string): boolean => isNumberType(type) || isTimeType(type);
const isOrdered = (type: string): boolean => !isNestedType(type) && type !== 'BINARY';
/** Of nested values, what they look like. */
const comparable = (name: string, type: string): string => (isOrdered(type) ? name : `CAST(${name} AS VARCHAR)`);
/** Infinities and NaN have no place in a range. */
const finite = (name: string, type: string): string =>
  /^(FLOAT|DOUBLE)/.test(type) ? ` FILTER (WHERE isfinite(${name}))` : '';

const factCount = 5;

function factsSql(table: ProfiledTable, columns: readonly Column[]): string {
  const facts = columns.flatMap(({ name, type }) => {
    const column = quotedName(name);
    const value = comparable(column, type);
    const range = finite(column, type);
    return [
      `count(${column})`,
      table.rowCount <= exactRowsMax ? `count(DISTINCT ${value})` : `approx_count_distinct(${value})`,
      isOrdered(type) ? `min(${column})${range}` : 'NULL',
      isOrdered(type) ? `max(${column})${range}` : 'NULL',
      isNumberType(type) ? `CAST(avg(${column})${range} AS DOUBLE)` : 'NULL',
    ];
  });
  return `SELECT count(*), ${facts.join(', ')} FROM ${sourceOf(table)}`;
}

interface Facts extends Omit<ColumnProfile, 'bins' | 'areBinsRanges'> {
  readonly least: number;
  readonly greatest: number;
  readonly isRange: boolean;
}

function factsOf({ name, type }: Column, values: Row, count: number, { rowCount }: ProfiledTable): Facts {
  const [present, distinct, min = null, max = null, mean = null] = values;
  const [least, greatest] = [min, max].map((value) => (value === null ? undefined : measureOf(value, type)));
  const isRange = hasRange(type) && least !== undefined && greatest !== undefined;
  return {
    name,
    type,
    count,
    nulls: count - Number(present ?? 0),
    distinct: Number(distinct ?? 0),
    distinctIs: rowCount <= exactRowsMax ? 'exact' : 'about',
    min: min === null ? null : textOf(min),
    max: max === null ? null : textOf(max),
    mean: mean === null ? null : Number(mean),
    isRange,
    least: least ?? 0,
    greatest: greatest ?? 0,
  };
}

function spreadSql(table: ProfiledTable, columns: readonly Facts[]): string {
  const source = sourceOf(table);
  const parts = columns.map(({ name, type, isRange, least, greatest }, i) => {
    const column = quotedName(name);
    if (!isRange)
      return `(SELECT ${i} AS c, CAST(${column} AS VARCHAR) AS label, count(*) AS n FROM ${source} WHERE ${column} IS NOT NULL
        GROUP BY label ORDER BY n DESC, label LIMIT ${frequentCount})`;
    const measure = isTimeType(type) ? `epoch(${column}) * 1000` : `CAST(${column} AS DOUBLE)`;
    const width = (greatest - least) / rangeCount || 1;
    const bin = `greatest(0, least(${rangeCount - 1}, CAST(floor((${measure} - ${least}) / ${width}) AS INT)))`;
    const where = /^(FLOAT|DOUBLE)/.test(type) ? `isfinite(${column})` : `${column} IS NOT NULL`;
    return `(SELECT ${i} AS c, CAST(${bin} AS VARCHAR) AS label, count(*) AS n FROM ${source} WHERE ${where} GROUP BY label)`;
  });
  return parts.join('\nUNION ALL\n');
}

function profileOf({ least, greatest, isRange, ...facts }: Facts, spread: readonly Row[]): ColumnProfile {
  if (!isRange) {
    const bins = spread.map(
      ([, label = null, n]): Bin => ({ label: label === null ? '' : textOf(label), count: Number(n) }),
    );
    return { ...facts, bins: bins.sort((a, b) => b.count - a.count), areBinsRanges: false };
  }
  const counts = new Array<number>(greatest === least ? 1 : rangeCount).fill(0);
  for (const [, bin, n] of spread) counts[Number(bin)] = Number(n);
  return { ...facts, bins: binsOfCounts(counts, least, greatest, isNumberType(facts.type)), areBinsRanges: true };
}
