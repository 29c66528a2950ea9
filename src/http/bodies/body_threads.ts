// Threads that parse and check large bodies, so that the main thread keeps answering: how many, with how much memory, for how long.
// What they do is body_thread.ts's. Bytes cross, and files; never the values themselves.
import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { RowsBatch, StoredRows } from '../../engines/engine.ts';
import type { ColumnDefinition } from '../../model/records.ts';
import type { RowSource } from '../../query/rows/row_source.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { BodyForm } from './body_text.ts';

export interface BodyWork {
  readonly blocks: readonly Uint8Array<ArrayBuffer>[];
  /** Of all blocks; the last one is perhaps not full. */
  readonly bytes: number;
  readonly form: BodyForm;
  /** As JSON. */
  readonly schema: string | undefined;
  /** The field that holds rows: it stays in the thread. */
  readonly rowsIn: string | undefined;
  /** Whether the digest of the rows will be asked for. */
  readonly digested: boolean;
}

/** What a body says: its bytes, to be parsed again, or for one with rows its other fields and the digest of the rows. */
export type ReadBody =
  | { readonly content: Uint8Array; readonly wideNumbers: boolean }
  | { readonly fields: Readonly<Record<string, unknown>>; readonly digest: string };

export type Asked =
  | { readonly kind: 'body'; readonly work: BodyWork }
  | {
      readonly kind: 'rows';
      readonly columns: readonly ColumnDefinition[];
      readonly version: string;
      readonly file: string;
    };

export type ThreadAnswer =
  | { readonly value: ReadBody | RowsBatch | StoredRows }
  | {
      readonly failure: {
        readonly code: Code;
        readonly message: string;
        readonly result: Readonly<Record<string, unknown>>;
      };
    }
  | { readonly fault: string };

export interface BodyThreadsOptions {
  readonly spoolDirectory: string;
  readonly threadsMax: number;
  /** Of the values of one body. */
  readonly memoryBytesMax: number;
  readonly timeoutMs: number;
}

/** A thread that is not used for so long ends, and gives its memory back. */
const idleMs = 30_000;
const MiB = 1024 * 1024;
const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './body_thread.ts' : './body_thread.js', url);

export class BodyThreads {
  readonly #options: BodyThreadsOptions;
  readonly #idle: BodyThread[] = [];
  readonly #waiting: { readonly resolve: (thread: BodyThread) => void; readonly timer: NodeJS.Timeout }[] = [];
  readonly #all = new Set<BodyThread>();

  constructor(options: BodyThreadsOptions) {
    this.#options = options;
  }

  /** Throws what the check of the body throws, BODY_TOO_LARGE, SERVER_BUSY. */
  async read(work: BodyWork): Promise<{ readonly body: ReadBody; readonly rows: ThreadRows }> {
    const thread = await this.#taken();
    const rows = new ThreadRows(thread, this.#options.spoolDirectory, () => this.#free(thread));
    try {
      const asked = { kind: 'body', work } as const;
      const body = (await thread.ask(
        asked,
        work.blocks.map((block) => block.buffer),
      )) as ReadBody;
      if ('digest' in body) rows.known = body.digest;
      else rows.release();
      return { body, rows };
    } catch (error) {
      rows.release();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#all].map((thread) => thread.end()));
  }

  #taken(): Promise<BodyThread> {
    const idle = this.#idle.pop();
    if (idle?.ended) {
      this.#all.delete(idle);
      return this.#taken();
    }
    if (idle) return Promise.resolve(idle.busy());
    const { threadsMax, memoryBytesMax, timeoutMs } = this.#options;
    if (this.#all.size < threadsMax) {
      const thread = new BodyThread(memoryBytesMax, timeoutMs);
      this.#all.add(thread);
      return Promise.resolve(thread);
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(new Failure('SERVER_BUSY', 'other large bodies are read now; this one was not'));
      }, timeoutMs);
      const waiting = { resolve, timer };
      this.#waiting.push(waiting);
    });
  }

  #free(thread: BodyThread): void {
    const next = this.#waiting.shift();
    if (next) clearTimeout(next.timer);
    if (thread.ended) {
      this.#all.delete(thread);
      if (next) this.#taken().then(next.resolve);
    } else if (next) next.resolve(thread);
    else {
      this.#idle.push(thread);
      thread.rest(idleMs, () => {
        this.#idle.splice(this.#idle.indexOf(thread), 1);
        this.#all.delete(thread);
      });
    }
  }
}

/** Rows that a thread holds for one request. */
export class ThreadRows implements RowSource {
  /** Their digest. */
  known = '';
  readonly #file: string;
  #thread: BodyThread | undefined;
  #free: () => void;
  #batch: Promise<RowsBatch | StoredRows> | undefined;
  #version = '';

  constructor(thread: BodyThread, spoolDirectory: string, free: () => void) {
    this.#file = join(spoolDirectory, `rows-${randomUUID()}`);
    this.#thread = thread;
    this.#free = free;
  }

  read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch | StoredRows> {
    if (this.#batch && version !== this.#version)
      throw new Failure('CHANGE_IN_PROGRESS', 'the columns of the table were changed while its rows were read');
    this.#version = version;
    this.#batch ??= this.#read(columns, version);
    return this.#batch;
  }

  async #read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch | StoredRows> {
    if (!this.#thread) throw new Failure('STATEMENT_CANCELLED', 'the client left before its rows were read');
    try {
      return (await this.#thread.ask({ kind: 'rows', columns, version, file: this.#file })) as RowsBatch | StoredRows;
    } finally {
      this.#freed();
    }
  }

  async digest(): Promise<string> {
    return this.known;
  }

  /** Nobody needs them any more. To be called at the end of each request. */
  release(): void {
    // The thread is free, and the file written, when what was asked of it has ended.
    const removed = () => rm(this.#file, { force: true });
    if (this.#batch) this.#batch.then(removed, removed).catch(() => undefined);
    else this.#freed();
  }

  #freed(): void {
    if (!this.#thread) return;
    this.#thread = undefined;
    this.#free();
  }
}

class BodyThread {
  readonly #worker: Worker;
  readonly #timeoutMs: number;
  #pending: PromiseWithResolvers<unknown> | undefined;
  #resting: NodeJS.Timeout | undefined;
  ended = false;

  constructor(memoryBytesMax: number, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#worker = new Worker(script, { resourceLimits: { maxOldGenerationSizeMb: Math.ceil(memoryBytesMax / MiB) } });
    // A request that waits for it has a connection, which keeps the process alive.
    this.#worker.unref();
    this.#worker.on('message', (answer: ThreadAnswer) => this.#answered(answer));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      this.ended = true;
      const tooLarge = 'the values of this body need more memory than one body may take';
      this.#pending?.reject(
        error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? new Failure('BODY_TOO_LARGE', tooLarge) : error,
      );
    });
    this.#worker.on('exit', () => {
      this.ended = true;
      this.#pending?.reject(new Failure('SHUTTING_DOWN', 'the server is shutting down'));
    });
  }

  async ask(asked: Asked, transferred: readonly ArrayBuffer[] = []): Promise<unknown> {
    const pending = Promise.withResolvers<unknown>();
    this.#pending = pending;
    const timer = setTimeout(() => {
      pending.reject(new Failure('SERVER_BUSY', `the body was not read in ${this.#timeoutMs / 1000} s`));
      void this.end();
    }, this.#timeoutMs);
    try {
      this.#worker.postMessage(asked, transferred);
      return await pending.promise;
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  busy(): this {
    clearTimeout(this.#resting);
    return this;
  }

  rest(ms: number, ended: () => void): void {
    this.#resting = setTimeout(() => {
      ended();
      void this.end();
    }, ms);
    this.#resting.unref();
  }

  async end(): Promise<void> {
    this.ended = true;
    clearTimeout(this.#resting);
    await this.#worker.terminate();
  }

  #answered(answer: ThreadAnswer): void {
    if ('value' in answer) this.#pending?.resolve(answer.value);
    else if ('failure' in answer) {
      const { code, message, result } = answer.failure;
      this.#pending?.reject(new Failure(code, message, result));
    } else this.#pending?.reject(new Error(`a thread that reads bodies failed: ${answer.fault}`));
  }
}
