// The SHA-256 of files while they are written, worked out by a thread of its own: on the main one, each megabyte would make everybody
// else wait for the better part of a millisecond (docs/performance.md).
import { Worker } from 'node:worker_threads';

/** What the thread is asked for; `key` is the file's. */
export type DigestRequest =
  /** Answers how far the digest is known: `offset`, or 0. */
  | { readonly kind: 'begin'; readonly key: string; readonly offset: number }
  /** From here on, the digest of what comes is wanted by itself too. */
  | { readonly kind: 'part'; readonly key: string }
  | { readonly kind: 'advance'; readonly key: string; readonly fd: number; readonly to: number }
  | { readonly kind: 'result'; readonly key: string }
  | { readonly kind: 'forget'; readonly key: string };

/** In hexadecimal. */
export interface FileDigests {
  readonly whole: string;
  readonly part: string | undefined;
}

type Value = number | FileDigests | undefined;
export type DigestReply =
  | { readonly id: number; readonly value: Value }
  | { readonly id: number; readonly fault: string };

/** Of what was there before, so much at a time: other files have their turn. */
const stepBytes = 16 * 1024 * 1024;
const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './digest_thread.ts' : './digest_thread.js', url);

export class Digests {
  #thread: Worker | undefined;
  #nextId = 1;
  readonly #pending = new Map<number, PromiseWithResolvers<Value>>();

  /** `key`: by which what is known of the file is found again when more of it comes. `fd`: open for reading until `end`. */
  start(key: string, fd: number): RunningDigest {
    return new RunningDigest(key, fd, (asked) => this.#ask(asked));
  }

  /** Nothing more of it will come. */
  forget(key: string): void {
    if (this.#thread) this.#ask({ kind: 'forget', key }).catch(ignored);
  }

  async stop(): Promise<void> {
    await this.#thread?.terminate();
  }

  #ask(asked: DigestRequest): Promise<Value> {
    this.#thread ??= this.#started();
    const id = this.#nextId++;
    const answer = Promise.withResolvers<Value>();
    // While nothing is asked of it, it keeps no process alive.
    if (this.#pending.size === 0) this.#thread.ref();
    this.#pending.set(id, answer);
    this.#thread.postMessage({ id, asked });
    return answer.promise;
  }

  /** With the first file: who has none needs no thread. */
  #started(): Worker {
    const thread = new Worker(script);
    thread.on('message', (answered: DigestReply) => {
      const answer = this.#pending.get(answered.id);
      this.#pending.delete(answered.id);
      if (this.#pending.size === 0) thread.unref();
      if ('fault' in answered) answer?.reject(new Error(answered.fault));
      else answer?.resolve(answered.value);
    });
    let why = 'it was stopped';
    thread.on('error', (error) => {
      why = String(error);
    });
    // What was asked of it is lost; the next question starts another.
    thread.on('exit', () => {
      this.#thread = undefined;
      for (const answer of this.#pending.values())
        answer.reject(new Error(`the thread of the digests has ended: ${why}`));
      this.#pending.clear();
    });
    return thread;
  }
}

/** One file's, while it is written. */
export class RunningDigest {
  readonly #key: string;
  readonly #fd: number;
  readonly #ask: (asked: DigestRequest) => Promise<Value>;
  #last: Promise<unknown> = Promise.resolve();
  #fault: { readonly error: unknown } | undefined;

  constructor(key: string, fd: number, ask: (asked: DigestRequest) => Promise<Value>) {
    this.#key = key;
    this.#fd = fd;
    this.#ask = ask;
  }

  /** The file has `offset` bytes that count. `isPart`: the digest of what follows is wanted by itself too. */
  async begin(offset: number, isPart: boolean): Promise<void> {
    const key = this.#key;
    for (let at = (await this.#ask({ kind: 'begin', key, offset })) as number; at < offset; ) {
      at = Math.min(at + stepBytes, offset);
      await this.#ask({ kind: 'advance', key, fd: this.#fd, to: at });
    }
    if (isPart) await this.#ask({ kind: 'part', key });
  }

  /** So much of the file is written. What goes wrong shows in `result`. */
  advance(to: number): void {
    this.#last = this.#ask({ kind: 'advance', key: this.#key, fd: this.#fd, to }).catch((error: unknown) => {
      this.#fault ??= { error };
    });
  }

  async result(): Promise<FileDigests> {
    const found = (await this.#ask({ kind: 'result', key: this.#key })) as FileDigests;
    if (this.#fault) throw this.#fault.error;
    return found;
  }

  /** The file is not read any more. */
  async end(): Promise<void> {
    await this.#last;
  }
}

const ignored = () => undefined;
