// The checker of histories detects each planted anomaly, and reports none in histories that some order explains.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Random } from '../random.ts';
import { findAnomalies, type Operation } from './history.ts';

type OperationFields = Partial<Pick<Operation, 'outcome' | 'start' | 'end'>>;
let clock = 0;
const timed = (rest: OperationFields) => ({ start: clock++, end: clock++, outcome: 'ok' as const, ...rest });
const append = (name: string, appends: Record<string, number>, rest: OperationFields = {}): Operation => ({
  name,
  appends: new Map(Object.entries(appends)),
  reads: new Map(),
  ...timed(rest),
});
const read = (name: string, reads: Record<string, number[]>, rest: OperationFields = {}): Operation => ({
  name,
  appends: new Map(),
  reads: new Map(Object.entries(reads)),
  ...timed(rest),
});
const atOnce = { start: -1, end: 1e9 };

describe('an anomaly is detected:', () => {
  const cases: Record<string, [RegExp, () => Operation[]]> = {
    'a value that occurs twice': [/twice/, () => [append('a', { x: 1 }), read('r', { x: [1, 1] })]],
    'a value of an append that failed': [
      /failed/,
      () => [append('a', { x: 1 }, { outcome: 'failed' }), read('r', { x: [1] })],
    ],
    'a value that nobody appended': [/nobody/, () => [read('r', { x: [7] })]],
    'two orders of the same writes': [
      /neither/,
      () => [append('a', { x: 1 }), append('b', { x: 2 }), read('r', { x: [1, 2] }), read('s', { x: [2] })],
    ],
    'an acknowledged append that is lost': [/no order/, () => [append('a', { x: 1 }), read('r', { x: [] })]],
    'a read of what was there before it began': [
      /no order/,
      () => [append('a', { x: 1 }), append('b', { x: 2 }), read('r', { x: [1] }), read('s', { x: [1, 2] })],
    ],
    'half of an append to two keys': [
      /no order/,
      () => [append('a', { x: 1, y: 2 }, atOnce), read('r', { x: [1], y: [] }, atOnce), read('s', { x: [1], y: [2] })],
    ],
    'two reads that see two appends in different orders': [
      /no order/,
      () => [
        append('a', { x: 1 }, atOnce),
        append('b', { y: 2 }, atOnce),
        read('r', { x: [1], y: [] }, atOnce),
        read('s', { x: [], y: [2] }, atOnce),
        read('t', { x: [1], y: [2] }),
      ],
    ],
  };
  for (const [name, [pattern, history]] of Object.entries(cases))
    it(name, () => assert.match(findAnomalies(history()).join('\n'), pattern));
});

it('a history that some order explains has no anomaly, however operations overlap', () => {
  for (let seed = 1; seed <= 40; seed++) assert.deepEqual(findAnomalies(serial(new Random(seed))), [], `seed ${seed}`);
});

/** Sequential operations, each at an instant within its time. */
function serial(random: Random): Operation[] {
  const lists = new Map(['x', 'y', 'z'].map((key) => [key, [] as number[]]));
  let value = 0;
  return Array.from({ length: 300 }, (_, index) => {
    const rest = { start: index - random.below(20), end: index + random.below(20) + 0.5 };
    const keys = ['x', 'y', 'z'].filter(() => random.chance(0.5));
    if (random.chance(0.5))
      return read(`r${index}`, Object.fromEntries(keys.map((key) => [key, [...(lists.get(key) as number[])]])), rest);
    const appends = Object.fromEntries(keys.map((key) => [key, ++value]));
    const outcome = random.pick(['ok', 'ok', 'failed', 'unknown'] as const);
    const isDone = outcome === 'ok' || (outcome === 'unknown' && random.chance(0.5));
    if (isDone) for (const key of keys) lists.get(key)?.push(appends[key] as number);
    return append(`a${index}`, appends, {
      ...rest,
      outcome,
      ...(outcome === 'unknown' ? { end: Number.POSITIVE_INFINITY } : {}),
    });
  });
}
