// Values of a catalog that the target of a move cannot hold: dates and times out of its range, also within lists, maps and structs. Each table
// that has such columns is read once.
import { join } from 'node:path';
import type { DateRange } from '../engines/port/engine.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import { sqlIdentifier } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';
import { parseJson } from '../standard/json/parse_json.ts';
import type { MoveProblem, TableToMove } from './move_plan.ts';
import { readSource } from './source_rows.ts';
import type { MoveSides } from './table_copier.ts';

interface ValuesToRead {
  readonly tables: readonly TableToMove[];
  readonly sides: MoveSides;
  readonly source: CatalogRef;
  readonly principal: Principal;
  readonly spool: string;
}

export async function refusedValues(values: ValuesToRead, signal: AbortSignal): Promise<MoveProblem[]> {
  const { dates } = values.sides.target.adapter.limits;
  const problems: MoveProblem[] = [];
  if (!dates) return problems;
  for (const table of values.tables) {
    const { database, name } = table;
    for (const [column, count] of await countOutside(table, dates, values, signal)) {
      const found = count === 1 ? '1 value' : `${count} values`;
      const reason = `the column ${JSON.stringify(column)} has ${found} out of the range that the engine can hold, ${dates.first} to ${dates.last}`;
      problems.push({ kind: 'values', database, name, reason, blocks: true, consent: null });
    }
  }
  return problems;
}

/** The columns that have such values, and how many. */
async function countOutside(
  { database, name: table, spec }: TableToMove,
  dates: DateRange,
  { sides, source: catalog, principal, spool }: ValuesToRead,
  signal: AbortSignal,
): Promise<readonly (readonly [column: string, count: number])[]> {
  const { adapter, engine } = sides.source;
  const counts = spec.columns.flatMap(({ name, type }) => {
    const count = adapter.datesOutside?.(sqlIdentifier(name), type, dates);
    return count === undefined ? [] : [{ name, sql: `CAST(coalesce(sum(${count}), 0) AS BIGINT)` }];
  });
  if (counts.length === 0) return [];
  const sql = `SELECT ${counts.map((count) => count.sql).join(', ')} FROM ${sqlIdentifier(database)}.${sqlIdentifier(table)}`;
  const options = { principal, signal, resultPath: join(spool, 'values') };
  const { rows } = await readSource(engine, { sql, catalog, database }, options);
  if (rows.kind !== 'text') throw new Error('a row of counts is longer than a page');
  const [found = []] = parseJson(`[${rows.text}]`, Number.POSITIVE_INFINITY) as number[][];
  return counts.flatMap(({ name }, index) => ((found[index] ?? 0) > 0 ? [[name, Number(found[index])] as const] : []));
}
