// Searches for rows by what SQL does not compare in bounded time, such as parts of texts. Rows are examined in batches of bounded size, of
// all searches one batch in a turn of the event loop, until the page is full or the time is over.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Batch, batchBytesMax } from './row_batches.ts';

const searchMsMax = 2000;
const turnRowsMax = 500;
/** Of texts in UTF-8; comparing them takes at most some tens of milliseconds. */
const turnBytesMax = 512 * 1024;

/** A row that may be found. `bytes`: what is read of it to examine it. */
export interface Candidate {
  readonly id: string;
  readonly bytes: number;
}

export interface RowSearch<C extends Candidate, R> {
  /** The next candidates in the order of the list; fewer than `limit` if there are no more. */
  readonly next: (after: C | undefined, limit: number) => Promise<readonly C[]>;
  /** Those of some consecutive candidates that are found, in the same order. */
  readonly examine: (candidates: readonly C[]) => Promise<readonly R[]>;
  /** The id of the candidate that was found. */
  readonly idOf: (item: R) => string;
  readonly limit: number;
  /** Milliseconds. */
  readonly clock?: (() => number) | undefined;
}

/** At least one batch is examined, so that each page is a step. Those found are fewer than `limit` where they are large. */
export async function searchRows<C extends Candidate, R>({
  next,
  examine,
  idOf,
  limit,
  clock = () => performance.now(),
}: RowSearch<C, R>): Promise<Batch<R, C>> {
  const endsAt = clock() + searchMsMax;
  const items: R[] = [];
  let itemBytes = 0;
  for (let after: C | undefined; ; ) {
    await turn();
    const candidates = await next(after, turnRowsMax);
    for (const batch of batchesOf(candidates, ({ bytes }) => bytes)) {
      if (batch[0] !== candidates[0]) await turn();
      const found = await examine(batch);
      items.push(...found);
      if (items.length > limit) return { items: items.slice(0, limit), hasMore: true };
      after = batch.at(-1);
      const sizes = new Map(batch.map(({ id, bytes }) => [id, bytes]));
      for (const item of found) itemBytes += sizes.get(idOf(item)) ?? 0;
      if (clock() >= endsAt || itemBytes > batchBytesMax) return { items, hasMore: true, examined: after };
    }
    if (candidates.length < turnRowsMax) return { items, hasMore: false };
  }
}

/** Those that fit of items in memory. `bytes`: what `fits` compares of one. */
export async function filterInTurns<T>(
  items: readonly T[],
  bytes: (item: T) => number,
  fits: (item: T) => boolean,
): Promise<T[]> {
  const found: T[] = [];
  for (const batch of batchesOf(items, bytes)) {
    if (batch[0] !== items[0]) await turn();
    found.push(...batch.filter(fits));
  }
  return found;
}

function* batchesOf<T>(items: readonly T[], bytesOf: (item: T) => number): Generator<T[]> {
  let batch: T[] = [];
  let batchBytes = 0;
  for (const item of items) {
    const bytes = bytesOf(item);
    if (batch.length > 0 && (batch.length === turnRowsMax || batchBytes + bytes > turnBytesMax)) {
      yield batch;
      batch = [];
      batchBytes = 0;
    }
    batch.push(item);
    batchBytes += bytes;
  }
  if (batch.length > 0) yield batch;
}

let lastTurn: Promise<unknown> = Promise.resolve();

function turn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => nextTurn());
  return lastTurn;
}
