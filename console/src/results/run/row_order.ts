// The order and the selection of rows that a view asks for, as indices of the rows. Nulls come last.
import type { Column, Value } from '../../../../src/client/index.ts';
import { isNumberType, textOf } from '../grid/value_text.ts';
import type { Sort, View } from './messages.ts';

type Rows = readonly (readonly Value[])[];

export const isWhole = ({ sort, filters }: View): boolean => sort === undefined && filters.length === 0;

/** Each click on the head of a column: ascending, descending, then as the statement gives them. */
export function nextSort(sort: Sort | undefined, column: number): Sort | undefined {
  if (sort?.column !== column) return { column, isDescending: false };
  return sort.isDescending ? undefined : { column, isDescending: true };
}

export function orderOf(columns: readonly Column[], rows: Rows, { sort, filters }: View): Uint32Array {
  const wanted = filters.map(({ column, text }) => ({ column, text: text.toLowerCase() }));
  const chosen: number[] = [];
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i] as readonly Value[];
    const isIn = wanted.every(({ column, text }) =>
      column === null ? row.some((value) => contains(value, text)) : contains(row[column] ?? null, text),
    );
    if (isIn) chosen.push(i);
  }
  const order = Uint32Array.from(chosen);
  if (!sort) return order;
  const { column, isDescending } = sort;
  const compare = comparatorOf(columns[column]?.type ?? '');
  const sign = isDescending ? -1 : 1;
  return order.sort((a, b) => {
    const [x, y] = [rows[a]?.[column] ?? null, rows[b]?.[column] ?? null];
    if (x === null || y === null) return Number(x === null) - Number(y === null) || a - b;
    return sign * compare(x, y) || a - b;
  });
}

/** Nulls are found as `null`. */
const contains = (value: Value, text: string): boolean =>
  (value === null ? 'null' : textOf(value)).toLowerCase().includes(text);

type Compare = (a: Value, b: Value) => number;

function comparatorOf(type: string): Compare {
  // Decimals are strings; two that are the same double are compared as text, which is exact where they have the same length.
  if (isNumberType(type))
    return (a, b) => (typeof a === 'bigint' && typeof b === 'bigint' ? order(a, b) : Number(a) - Number(b));
  if (type === 'BOOLEAN') return (a, b) => Number(a) - Number(b);
  return (a, b) => {
    const [x, y] = [textOf(a), textOf(b)];
    return x < y ? -1 : Number(x > y);
  };
}

const order = (a: bigint, b: bigint): number => (a < b ? -1 : Number(a > b));
