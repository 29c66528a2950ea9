// What the server has: records, lists, and comparisons of definitions. An object with a change under way, such as one that a command that was
// ended before has begun, is read again until the change has ended.
import { TabulariumError } from '../../../client/errors.ts';
import { type Answer, type Outgoing, sleep } from '../../../client/transport.ts';
import { camelCase } from '../../../standard/camel_case.ts';
import { pageSizeMax } from '../../../standard/page_limits.ts';
import type { Runtime } from '../../remote/call_options.ts';
import type { Connection } from '../../remote/connection.ts';
import { CommandError } from '../../remote/exit_codes.ts';
import type { Output } from '../../remote/output/output.ts';
import type { Fields } from '../files/declaration.ts';

const changing = new Set<unknown>(['creating', 'altering', 'dropping', 'restoring', 'purging']);
const pollMs = 500;
/** A change that rewrites much data can take hours. */
const changeWaitMs = 24 * 3600 * 1000;

export interface ReadRecord {
  readonly record: Fields;
  readonly etag: string | undefined;
}

export class ServerReader {
  readonly #connection: Connection;
  readonly #output: Output;
  readonly #signal: AbortSignal;

  constructor(connection: Connection, output: Output, { signal }: Runtime) {
    this.#connection = connection;
    this.#output = output;
    this.#signal = signal;
  }

  /** Undefined if the object, or one above it, does not exist. Throws TabulariumError. */
  async get(uri: string): Promise<ReadRecord | undefined> {
    return this.#settled(
      async () => {
        const answer = await this.#found({ method: 'GET', path: uri, isRead: true });
        return answer && { record: answer.result, etag: answer.etag };
      },
      (read) => read?.record,
    );
  }

  /** All records of a collection. */
  async list(uri: string): Promise<readonly Fields[]> {
    const field = camelCase(uri.split('/').at(-1) ?? '');
    const records: Fields[] = [];
    let pageToken: unknown;
    do {
      const token = pageToken === undefined ? '' : `&pageToken=${encodeURIComponent(String(pageToken))}`;
      const path = `${uri}?pageSize=${pageSizeMax}${token}`;
      const result: Fields = (await this.#found({ method: 'GET', path, isRead: true }))?.result ?? {};
      records.push(...((result[field] ?? []) as readonly Fields[]));
      pageToken = result.nextPageToken;
    } while (pageToken !== undefined);
    return records;
  }

  /** All items of a search; `field`: of its result. */
  async search(path: string, body: Fields, field: string): Promise<readonly Fields[]> {
    const items: Fields[] = [];
    let pageToken: unknown;
    do {
      const page = { ...body, pageSize: pageSizeMax, ...(pageToken === undefined ? {} : { pageToken }) };
      const { result } = await this.#send({ method: 'POST', path, body: page, isRead: true });
      items.push(...((result[field] ?? []) as readonly Fields[]));
      pageToken = result.nextPageToken;
    } while (pageToken !== undefined);
    return items;
  }

  /** `recordField`: the field of the result that has the record that was compared. */
  async compare(collection: string, body: Fields, recordField: string): Promise<Fields> {
    const path = `${collection}/compare`;
    return this.#settled(
      async () => (await this.#send({ method: 'POST', path, body, isRead: true })).result,
      (result) => result[recordField] as Fields | undefined,
    );
  }

  async #settled<T>(read: () => Promise<T>, recordOf: (value: T) => Fields | undefined): Promise<T> {
    const giveUpAt = performance.now() + changeWaitMs;
    for (let isFirst = true; ; isFirst = false) {
      const value = await read();
      const record = recordOf(value);
      if (!record || !changing.has(record.state)) return value;
      if (isFirst)
        this.#output.note(
          `waiting for the change of ${String(record.uri)} that is under way (${String(record.state)})`,
        );
      if (performance.now() > giveUpAt)
        throw new CommandError(
          'unavailable',
          `the change of ${String(record.uri)} has not ended in a day; see tabularium tasks list`,
        );
      await sleep(pollMs, this.#signal);
    }
  }

  async #found(outgoing: Outgoing): Promise<Answer | undefined> {
    try {
      return await this.#send(outgoing);
    } catch (error) {
      if (error instanceof TabulariumError && error.code === 'OBJECT_NOT_FOUND') return undefined;
      throw error;
    }
  }

  #send(outgoing: Outgoing): Promise<Answer> {
    return this.#connection.transport.send({ ...outgoing, signal: this.#signal });
  }
}

const concurrency = 8;

/** The results in the order of the items; at most 8 calls run at a time. */
export async function inParallel<T, R>(items: readonly T[], call: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async () => {
    for (let i = next++; i < items.length; i = next++) results[i] = await call(items[i] as T);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work));
  return results;
}
