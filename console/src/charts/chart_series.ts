// The series of a chart with axes: one for each value column, or one for each of them and each category that the rows are split by.
import type { Column, Value } from '../../../src/client/index.ts';
import { textOf } from '../results/grid/value_text.ts';
import { type ChartSettings, splitsMax } from './chart_settings.ts';

type Rows = readonly (readonly Value[])[];

/** Midnight says nothing on an axis of days. */
export const labelOf = (value: Value | undefined): string =>
  value == null ? 'NULL' : textOf(value).replace(/T00:00:00$/, '');
export const numberOf = (value: Value | undefined): number | null => (value == null ? null : Number(value));

export interface Series {
  readonly name: string;
  /** Of its values. */
  readonly column: number;
  readonly rows: Rows;
}

/** The rows of each category that is drawn, in the order of the names; of many, those with the largest sums. */
export function splitRows({ group, y }: ChartSettings, columns: readonly Column[], rows: Rows) {
  const indexOf = (name: string | null): number => columns.findIndex((column) => column.name === name);
  const [index, measure] = [indexOf(group), indexOf(y[0] ?? null)];
  if (index < 0) return { parts: undefined, count: 0 };
  const byCategory = Map.groupBy(rows, (row) => labelOf(row[index]));
  const sumOf = (part: Rows): number => part.reduce((sum, row) => sum + Math.abs(numberOf(row[measure]) ?? 0), 0);
  const all = [...byCategory].map(([name, part]) => ({ name, rows: part }));
  const drawn =
    all.length > splitsMax ? all.toSorted((a, b) => sumOf(b.rows) - sumOf(a.rows)).slice(0, splitsMax) : all;
  return { parts: drawn.toSorted((a, b) => (a.name < b.name ? -1 : 1)), count: all.length };
}

export function seriesOf(settings: ChartSettings, columns: readonly Column[], rows: Rows): readonly Series[] {
  const { y } = settings;
  const { parts } = splitRows(settings, columns, rows);
  const values = y.map((name) => ({ name, column: columns.findIndex((column) => column.name === name) }));
  if (!parts) return values.map(({ name, column }) => ({ name, column, rows }));
  return parts.flatMap((part) =>
    values.map(({ name, column }) => ({
      name: y.length > 1 ? `${part.name}, ${name}` : part.name,
      column,
      rows: part.rows,
    })),
  );
}
