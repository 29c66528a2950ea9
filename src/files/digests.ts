// Computes the SHA-256 of files while they are written, in a worker thread: on the main thread, each megabyte would delay all requests
// by the better part of a millisecond. See docs/performance.md.
import { Worker } from 'node:worker_threads';

/** Requests to the thread; `key` identifies the file. */
export type DigestRequest =
  /** Returns up to which byte the digest is computed: `offset`, or 0. */
  | { readonly kind: 'begin'; readonly key: string; readonly offset: number }
  /** From here on, the digest of the following content is also computed separately. */
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

/** Existing content is read in steps of this size, so that other files get their turn. */
const catchUpBytes = 16 * 1024 * 1024;
const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './digest_thread.ts' : './digest_thread.js', url);

export class Digests {
  #thread: Worker | undefined;
  #nextId = 1;
  readonly #pending = new Map<number, PromiseWithResolvers<Value>>();

  /** `key`: identifies the digest in progress when the next part arrives. `fd`: open for reading until `end`. */
  start(key: string, fd: number): RunningDigest {
    return new RunningDigest(key, fd, (request) => this.#send(request));
  }

  /** Call it when no more content of the file will follow. */
  forget(key: string): void {
    if (this.#thread) this.#send({ kind: 'forget', key }).catch(ignored);
  }

  async stop(): Promise<void> {
    await this.#thread?.terminate();
  }

  #send(request: DigestRequest): Promise<Value> {
    this.#thread ??= this.#startThread();
    const id = this.#nextId++;
    const answer = Promise.withResolvers<Value>();
    // Without pending requests, the thread does not keep the process alive.
    if (this.#pending.size === 0) this.#thread.ref();
    this.#pending.set(id, answer);
    this.#thread.postMessage({ id, request });
    return answer.promise;
  }

  /** Called for the first file: without files, no thread is needed. */
  #startThread(): Worker {
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
    // Pending requests are lost; the next request starts another thread.
    thread.on('exit', () => {
      this.#thread = undefined;
      for (const answer of this.#pending.values()) answer.reject(new Error(`the digest thread has ended: ${why}`));
      this.#pending.clear();
    });
    return thread;
  }
}

/** The digest of one file while it is written. */
export class RunningDigest {
  readonly #key: string;
  readonly #fd: number;
  readonly #send: (request: DigestRequest) => Promise<Value>;
  #last: Promise<unknown> = Promise.resolve();
  #fault: { readonly error: unknown } | undefined;

  constructor(key: string, fd: number, ask: (request: DigestRequest) => Promise<Value>) {
    this.#key = key;
    this.#fd = fd;
    this.#send = ask;
  }

  /** The first `offset` bytes of the file are valid. `isPart`: the digest of what follows is also computed separately. */
  async begin(offset: number, isPart: boolean): Promise<void> {
    const key = this.#key;
    for (let position = (await this.#send({ kind: 'begin', key, offset })) as number; position < offset; ) {
      position = Math.min(position + catchUpBytes, offset);
      await this.#send({ kind: 'advance', key, fd: this.#fd, to: position });
    }
    if (isPart) await this.#send({ kind: 'part', key });
  }

  /** The file is written up to `to`. Errors are reported by `result`. */
  advance(to: number): void {
    this.#last = this.#send({ kind: 'advance', key: this.#key, fd: this.#fd, to }).catch((error: unknown) => {
      this.#fault ??= { error };
    });
  }

  async result(): Promise<FileDigests> {
    const found = (await this.#send({ kind: 'result', key: this.#key })) as FileDigests;
    if (this.#fault) throw this.#fault.error;
    return found;
  }

  /** Resolves when the thread no longer reads the file. */
  async end(): Promise<void> {
    await this.#last;
  }
}

const ignored = () => undefined;
