// What one wants to know of a column first: nulls, distinct values, least and greatest, and how the values are spread.
import type { Column, Value } from '../../../../src/client/index.ts';
import { isNestedType, isNumberType, isTimeType, textOf } from '../grid/value_text.ts';

export interface Bin {
  readonly label: string;
  readonly count: number;
}

export interface ColumnProfile {
  readonly name: string;
  readonly type: string;
  readonly count: number;
  readonly nulls: number;
  readonly distinct: number;
  /** `over`: there are more distinct values than are counted; `about`: an estimate. */
  readonly distinctIs: 'exact' | 'over' | 'about';
  readonly min: string | null;
  readonly max: string | null;
  readonly mean: number | null;
  /** Of numbers and times: ranges of equal width. Of others: the most frequent values. */
  readonly bins: readonly Bin[];
  readonly areBinsRanges: boolean;
}

const distinctMax = 200_000;
export const rangeCount = 20;
export const frequentCount = 6;

/** A value as a number that orders like it; undefined if it has none. */
export function measureOf(value: Value, type: string): number | undefined {
  if (isNumberType(type)) return Number(value);
  if (!isTimeType(type)) return undefined;
  const text = String(value);
  // Times without a zone are read as UTC, so that no daylight saving moves them.
  return Date.parse(/Z|[+-]\d\d:?\d\d$/.test(text) || text.length <= 10 ? text : `${text}Z`);
}

export function profileOf({ name, type }: Column, values: Iterable<Value>): ColumnProfile {
  const frequencies = new Map<string, number>();
  const measures: number[] = [];
  let [count, nulls, sum, isDistinctBounded] = [0, 0, 0, false];
  let [min, max]: [string | null, string | null] = [null, null];
  let [least, greatest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    count++;
    if (value === null) {
      nulls++;
      continue;
    }
    const text = textOf(value);
    const known = frequencies.get(text);
    if (known !== undefined || frequencies.size < distinctMax) frequencies.set(text, (known ?? 0) + 1);
    else isDistinctBounded = true;
    const measure = measureOf(value, type);
    if (measure === undefined) {
      if (min === null || text < min) min = text;
      if (max === null || text > max) max = text;
    } else if (Number.isFinite(measure)) {
      measures.push(measure);
      sum += measure;
      if (measure < least) [least, min] = [measure, text];
      if (measure > greatest) [greatest, max] = [measure, text];
    }
  }
  const hasRanges = measures.length > 0 && (frequencies.size > frequentCount || isNumberType(type));
  const isNumber = isNumberType(type);
  return {
    name,
    type,
    count,
    nulls,
    distinct: frequencies.size,
    distinctIs: isDistinctBounded ? 'over' : 'exact',
    min: isNestedType(type) ? null : min,
    max: isNestedType(type) ? null : max,
    mean: isNumber && measures.length > 0 ? sum / measures.length : null,
    bins: hasRanges ? rangesOf(measures, least, greatest, isNumber) : frequentOf(frequencies),
    areBinsRanges: hasRanges,
  };
}

function rangesOf(measures: readonly number[], least: number, greatest: number, isNumber: boolean): Bin[] {
  const width = (greatest - least) / rangeCount || 1;
  const counts = new Array<number>(greatest === least ? 1 : rangeCount).fill(0);
  for (const measure of measures) {
    const bin = Math.min(counts.length - 1, Math.floor((measure - least) / width));
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return binsOfCounts(counts, least, greatest, isNumber);
}

/** Ranges of equal width with the given counts. Times are in milliseconds. */
export function binsOfCounts(counts: readonly number[], least: number, greatest: number, isNumber: boolean): Bin[] {
  const width = (greatest - least) / rangeCount || 1;
  const labelOf = (measure: number): string =>
    isNumber ? String(Number(measure.toPrecision(4))) : new Date(measure).toISOString().slice(0, 16).replace('T', ' ');
  return counts.map((count, i) => ({
    label: `${labelOf(least + i * width)} to ${labelOf(least + (i + 1) * width)}`,
    count,
  }));
}

function frequentOf(frequencies: ReadonlyMap<string, number>): Bin[] {
  const sorted = [...frequencies].sort(([, a], [, b]) => b - a);
  return sorted.slice(0, frequentCount).map(([label, count]) => ({ label, count }));
}
