// Values of a catalog that the target of a move cannot hold: dates and times out of its range. Each table that has such columns is read once. Values
// within lists, maps and structs are not checked; the copy of their table fails.
import { join } from 'node:path';
import type { EngineLimits } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import type { Principal } from '../model/principal.ts';
import type { TypeKind } from '../model/types.ts';
import { parseJson } from '../standard/json/parse_json.ts';
import type { MoveProblem, TableToMove } from './move_plan.ts';
import { quoted, readSource } from './source_rows.ts';
import type { MoveSides } from './table_copier.ts';

interface ValuesToRead {
  readonly tables: readonly TableToMove[];
  readonly sides: MoveSides;
  readonly source: CatalogRef;
  readonly principal: Principal;
  readonly spool: string;
}

type Dates = NonNullable<EngineLimits['dates']>;

/** How a statement writes a time of a day. */
const literals: Partial<Record<TypeKind, (date: string, time: string) => string>> = {
  DATE: (date) => `DATE '${date}'`,
  DATETIME: (date, time) => `TIMESTAMP '${date} ${time}'`,
  TIMESTAMPTZ: (date, time) => `TIMESTAMPTZ '${date} ${time}+00'`,
};

export async function refusedValues(values: ValuesToRead, signal: AbortSignal): Promise<MoveProblem[]> {
  const { source, target } = values.sides;
  const { dates } = target.adapter.limits;
  const problems: MoveProblem[] = [];
  if (!dates || source.adapter.limits.dates) return problems;
  for (const table of values.tables) {
    const { database, name } = table;
    for (const [column, count] of await countOutside(table, dates, values, signal)) {
      const reason = `${count} values of the column ${JSON.stringify(column)} are not from ${dates.first} to ${dates.last}, which the engine can hold`;
      problems.push({ kind: 'values', database, name, reason, blocks: true, consent: null });
    }
  }
  return problems;
}

/** The columns that have such values, and how many. */
async function countOutside(
  { database, name: table, spec }: TableToMove,
  { first, last }: Dates,
  { sides, source: catalog, principal, spool }: ValuesToRead,
  signal: AbortSignal,
): Promise<readonly (readonly [column: string, count: number])[]> {
  const counts = spec.columns.flatMap(({ name, type: { kind } }) => {
    const literal = literals[kind];
    if (!literal) return [];
    const column = quoted(name);
    const [from, to] = [literal(first, '00:00:00'), literal(last, '23:59:59.999999')];
    return [{ name, sql: `count(*) FILTER (WHERE ${column} < ${from} OR ${column} > ${to})` }];
  });
  if (counts.length === 0) return [];
  const sql = `SELECT ${counts.map((count) => count.sql).join(', ')} FROM ${quoted(database)}.${quoted(table)}`;
  const options = { principal, signal, resultPath: join(spool, 'values') };
  const { rows } = await readSource(sides.source.engine, { sql, catalog, database }, options);
  if (rows.kind !== 'text') throw new Error('a row of counts is longer than a page');
  const [found = []] = parseJson(`[${rows.text}]`, Number.POSITIVE_INFINITY) as number[][];
  return counts.flatMap(({ name }, index) => ((found[index] ?? 0) > 0 ? [[name, Number(found[index])] as const] : []));
}
