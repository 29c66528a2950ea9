// How a result is drawn: the kind of chart and its columns by name. Stored with a saved query; the server does not read it.
import type { Column, Value } from '../../../src/client/index.ts';
import { isNestedType, isNumberType, isTimeType, textOf } from '../results/grid/value_text.ts';

export const chartKinds = ['line', 'bar', 'area', 'scatter', 'pie', 'heatmap'] as const;
export type ChartKind = (typeof chartKinds)[number];

export const chartKindLabels: Readonly<Record<ChartKind, string>> = {
  line: 'Line',
  bar: 'Bar',
  area: 'Area',
  scatter: 'Scatter',
  pie: 'Pie',
  heatmap: 'Heat map',
};

export interface ChartSettings {
  readonly kind: ChartKind;
  readonly x: string;
  /** The values: one or more for lines, bars, areas and points, one for the others. */
  readonly y: readonly string[];
  /** The vertical categories of a heat map. In charts with axes, each value of the column has its own line, bars or points; null: none. */
  readonly group: string | null;
}

const manyCategories = 60;
/** Lines, or bars beside each other, that can be distinguished. */
export const splitsMax = 12;

/** A chart that suits the types and the rows, which may be the first ones; undefined if nothing can be drawn. */
export function suggestChart(
  columns: readonly Column[],
  rowCount: number,
  rows: readonly (readonly Value[])[],
): ChartSettings | undefined {
  const numbers = columns.filter(({ type }) => isNumberType(type)).map(({ name }) => name);
  const times = columns.filter(({ type }) => isTimeType(type)).map(({ name }) => name);
  const texts = columns
    .filter(({ type }) => !isNumberType(type) && !isTimeType(type) && !isNestedType(type))
    .map(({ name }) => name);
  const [number] = numbers;
  if (number === undefined) return undefined;
  const [time] = times;
  if (time !== undefined) {
    const group = suggestSplit(columns, rows, time, texts);
    return { kind: 'line', x: time, y: group === null ? numbers.slice(0, 4) : [number], group };
  }
  const [text, secondText] = texts;
  if (text !== undefined && secondText !== undefined && numbers.length === 1)
    return { kind: 'heatmap', x: text, y: [number], group: secondText };
  if (text !== undefined) return { kind: 'bar', x: text, y: numbers.slice(0, 3), group: null };
  if (numbers.length === 1) return { kind: 'bar', x: number, y: [number], group: null };
  // A first column with few rows, such as a year, is an axis of categories.
  const kind = rowCount <= manyCategories ? 'line' : 'scatter';
  return { kind, x: number, y: numbers.slice(1, 4), group: null };
}

/** Where times repeat, the rows are those of several lines: one for each value of the category that tells most of them apart. */
function suggestSplit(
  columns: readonly Column[],
  rows: readonly (readonly Value[])[],
  time: string,
  categories: readonly string[],
): string | null {
  const indexOf = (name: string): number => columns.findIndex((column) => column.name === name);
  const distinct = (...names: string[]): number => {
    const indices = names.map(indexOf);
    return new Set(rows.map((row) => JSON.stringify(indices.map((i) => textOf(row[i] ?? null))))).size;
  };
  const best = { group: null as string | null, points: distinct(time) };
  for (const name of categories) {
    if (distinct(name) > splitsMax) continue;
    const points = distinct(time, name);
    if (points > best.points) Object.assign(best, { group: name, points });
  }
  return best.group;
}

/** The column of the vertical categories: the one that was chosen, or the first other one that has no numbers. */
export function groupOf({ x, group }: ChartSettings, columns: readonly Column[]): string {
  return group ?? columns.find(({ name, type }) => name !== x && !isNumberType(type))?.name ?? x;
}

/** Settings that were stored, as far as they fit the columns of this result. */
export function fittingChart(stored: unknown, columns: readonly Column[]): ChartSettings | undefined {
  const { kind, x, y, group = null } = (stored ?? {}) as Partial<ChartSettings>;
  const names = new Set(columns.map(({ name }) => name));
  const knownKind = chartKinds.find((known) => known === kind);
  if (!knownKind || x === undefined || !names.has(x) || !Array.isArray(y)) return undefined;
  const known = y.filter((name: unknown): name is string => typeof name === 'string' && names.has(name));
  if (known.length === 0) return undefined;
  return { kind: knownKind, x, y: known, group: group !== null && names.has(group) ? group : null };
}
