// The credentials with which the servers of a cluster are called. They are read from the store every few seconds; while the store does not
// answer, which says nothing about the servers, those that were read last are used.
import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import type { Credentials } from '../../cluster/registered_servers.ts';

const ageMsMax = 5000;
/** How long a call waits for newer credentials than those that are known. */
const readMs = 500;

interface Read {
  readonly value: Promise<Credentials>;
  /** When it began; of `performance.now()`. */
  readonly at: number;
  done: Credentials | undefined;
}

export class CachedCredentials {
  readonly #readFromStore: () => Promise<Credentials>;
  #read: Read | undefined;
  /** Those that were read last. */
  #known: Credentials | undefined;

  constructor(readFromStore: () => Promise<Credentials>) {
    this.#readFromStore = readFromStore;
  }

  async get(): Promise<Credentials> {
    const now = performance.now();
    if (!this.#read || now - this.#read.at > ageMsMax) {
      const read: Read = { value: this.#readFromStore(), at: now, done: undefined };
      read.value.then(
        (credentials) => {
          read.done = credentials;
          this.#known = credentials;
        },
        () => {
          this.#read = undefined;
        },
      );
      this.#read = read;
    }
    return this.#read.done ?? orKnown(this.#read.value, this.#known);
  }

  /** The next call reads them again. */
  expire(): void {
    this.#read = undefined;
  }

  /** Those that were read last are no longer used while the store does not answer. */
  forgetKnown(): void {
    this.#known = undefined;
  }
}

async function orKnown(read: Promise<Credentials>, known: Credentials | undefined): Promise<Credentials> {
  if (!known) return read;
  const inTime = await withTimeout(read, readMs, { ref: false }).catch(() => known);
  return inTime ?? known;
}
