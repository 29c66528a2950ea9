// Worker threads that parse and check large bodies, so that the main thread stays responsive: their number, memory and time limits.
// See body_thread.ts for the work. Bytes and files are passed between threads, never parsed values.
import { randomUUID } from 'node:crypto';
import type { EventEmitter } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { RowsBatch, StoredRows } from '../../engines/port/rows.ts';
import { FairPlaces } from '../../model/concurrency/fair_share.ts';
import type { ColumnDefinition } from '../../model/records.ts';
import type { RowSource } from '../../query/rows/row_source.ts';
import type { Code } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { BodyForm } from './body_text.ts';

export interface BodyWork {
  readonly blocks: readonly Uint8Array<ArrayBuffer>[];
  /** The bytes in all blocks; the last block may be partly filled. */
  readonly bytes: number;
  readonly form: BodyForm;
  /** JSON Schema as JSON text. */
  readonly schema: string | undefined;
  /** The field that holds rows: it stays in the thread. */
  readonly rowsIn: string | undefined;
  /** Whether a digest of the rows is needed. */
  readonly digested: boolean;
}

/** A checked body: its bytes, to be parsed again, or for a body with rows its other fields and the digest of the rows. */
export type ReadBody =
  | { readonly content: Uint8Array; readonly wideNumbers: boolean }
  | { readonly fields: Readonly<Record<string, unknown>>; readonly digest: string };

export type ThreadRequest =
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
  /** Beyond it, as many more bodies have a thread of principals that have none. */
  readonly threadsMax: number;
  /** Memory for the parsed values of one body. */
  readonly memoryBytesMax: number;
  /** For parsing a body, and for its wait for a thread. */
  readonly timeoutMs: number;
  /** For how long parsed rows hold a thread before they are used. */
  readonly heldMsMax: number;
}

/** Emits `close` when it disconnects. */
type Client = Pick<EventEmitter, 'once' | 'off'>;

/** A thread that is idle for this long ends, which frees its memory. */
const idleMs = 30_000;
const MiB = 1024 * 1024;
const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './body_thread.ts' : './body_thread.js', url);

export class BodyThreads {
  readonly #options: BodyThreadsOptions;
  readonly #idle: BodyThread[] = [];
  readonly #places: FairPlaces;
  readonly #all = new Set<BodyThread>();

  constructor(options: BodyThreadsOptions) {
    this.#options = options;
    this.#places = new FairPlaces(options.threadsMax);
  }

  /**
   * Throws the failures of the body check, BODY_TOO_LARGE, SERVER_BUSY, and STATEMENT_CANCELLED if the client disconnects before there is a
   * thread. The rows hold the thread until they are read.
   */
  async read(
    principalId: string,
    work: BodyWork,
    client: Client,
  ): Promise<{ readonly body: ReadBody; readonly rows: ThreadRows }> {
    const thread = await this.#acquire(principalId, client);
    const rows = new ThreadRows(thread, this.#options, () => this.#release(thread, principalId));
    try {
      const body = (await thread.request(
        { kind: 'body', work },
        work.blocks.map((block) => block.buffer),
      )) as ReadBody;
      if ('digest' in body) rows.keep(body.digest);
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

  async #acquire(principalId: string, client: Client): Promise<BodyThread> {
    await this.#turn(principalId, client);
    try {
      return this.#thread();
    } catch (error) {
      this.#places.leave(principalId);
      throw error;
    }
  }

  /** Throws what the system refuses a new thread with. */
  #thread(): BodyThread {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) {
      if (!idle.ended) return idle.markBusy();
      this.#all.delete(idle);
    }
    const { memoryBytesMax, timeoutMs } = this.#options;
    const thread = new BodyThread(memoryBytesMax, timeoutMs);
    this.#all.add(thread);
    return thread;
  }

  async #turn(principalId: string, client: Client): Promise<void> {
    const { timeoutMs } = this.#options;
    const { promise: stopped, reject: stop } = Promise.withResolvers<never>();
    const late = `timed out after ${timeoutMs / 1000} s waiting for other large bodies to be read; retry later`;
    const timer = setTimeout(() => stop(new Failure('SERVER_BUSY', late)), timeoutMs);
    const onClose = () => stop(disconnected());
    client.once('close', onClose);
    try {
      await this.#places.take(principalId, stopped);
    } finally {
      clearTimeout(timer);
      client.off('close', onClose);
    }
  }

  #release(thread: BodyThread, principalId: string): void {
    if (thread.ended) this.#all.delete(thread);
    else {
      this.#idle.push(thread);
      thread.markIdle(idleMs, () => {
        this.#idle.splice(this.#idle.indexOf(thread), 1);
        this.#all.delete(thread);
      });
    }
    this.#places.leave(principalId);
  }
}

/** The failure of a request whose client has disconnected before its body, or the rows in it, were read. */
export const disconnected = () =>
  new Failure('STATEMENT_CANCELLED', 'the client disconnected before its body was read completely');

/** Rows that a thread keeps for one request. */
export class ThreadRows implements RowSource {
  #digest = '';
  readonly #file: string;
  readonly #heldMsMax: number;
  #timer: NodeJS.Timeout | undefined;
  #isLate = false;
  #thread: BodyThread | undefined;
  #onRelease: () => void;
  #batch: Promise<RowsBatch | StoredRows> | undefined;
  #version = '';

  constructor(
    thread: BodyThread,
    { spoolDirectory, heldMsMax }: Pick<BodyThreadsOptions, 'spoolDirectory' | 'heldMsMax'>,
    onRelease: () => void,
  ) {
    this.#file = join(spoolDirectory, `rows-${randomUUID()}`);
    this.#heldMsMax = heldMsMax;
    this.#thread = thread;
    this.#onRelease = onRelease;
  }

  /** The rows were parsed. They are dropped if they are not read in time, because others wait for the thread. */
  keep(digest: string): void {
    this.#digest = digest;
    this.#timer = setTimeout(() => {
      this.#isLate = true;
      this.#releaseThread();
    }, this.#heldMsMax);
  }

  read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch | StoredRows> {
    if (this.#batch && version !== this.#version)
      throw new Failure('CHANGE_IN_PROGRESS', 'the columns of the table changed while the rows were being read');
    this.#version = version;
    this.#batch ??= this.#read(columns, version);
    return this.#batch;
  }

  async #read(columns: readonly ColumnDefinition[], version: string): Promise<RowsBatch | StoredRows> {
    clearTimeout(this.#timer);
    if (this.#isLate)
      throw new Failure('SERVER_BUSY', `the rows were not needed within ${this.#heldMsMax / 1000} s and were dropped`);
    if (!this.#thread) throw disconnected();
    try {
      return (await this.#thread.request({ kind: 'rows', columns, version, file: this.#file })) as
        | RowsBatch
        | StoredRows;
    } finally {
      this.#releaseThread();
    }
  }

  async digest(): Promise<string> {
    return this.#digest;
  }

  /** Releases the rows. Call it at the end of each request. */
  release(): void {
    // A pending read must end first: until then the thread is busy and the file may still be written.
    const removeFile = () => rm(this.#file, { force: true });
    if (this.#batch) this.#batch.then(removeFile, removeFile).catch(() => undefined);
    else this.#releaseThread();
  }

  #releaseThread(): void {
    clearTimeout(this.#timer);
    if (!this.#thread) return;
    this.#thread = undefined;
    this.#onRelease();
  }
}

class BodyThread {
  readonly #worker: Worker;
  readonly #timeoutMs: number;
  #pending: PromiseWithResolvers<unknown> | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  ended = false;

  constructor(memoryBytesMax: number, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#worker = new Worker(script, { resourceLimits: { maxOldGenerationSizeMb: Math.ceil(memoryBytesMax / MiB) } });
    // The connection of a waiting request keeps the process alive.
    this.#worker.unref();
    this.#worker.on('message', (answer: ThreadAnswer) => this.#onAnswer(answer));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      this.ended = true;
      const tooLarge = 'the values of this body need more memory than the limit for one body';
      this.#pending?.reject(
        error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? new Failure('BODY_TOO_LARGE', tooLarge) : error,
      );
    });
    this.#worker.on('exit', () => {
      this.ended = true;
      this.#pending?.reject(new Failure('SHUTTING_DOWN', 'the server is shutting down'));
    });
  }

  async request(message: ThreadRequest, transferred: readonly ArrayBuffer[] = []): Promise<unknown> {
    const pending = Promise.withResolvers<unknown>();
    this.#pending = pending;
    const timer = setTimeout(() => {
      pending.reject(new Failure('SERVER_BUSY', `timed out after ${this.#timeoutMs / 1000} s reading the body`));
      void this.end();
    }, this.#timeoutMs);
    try {
      this.#worker.postMessage(message, transferred);
      return await pending.promise;
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  markBusy(): this {
    clearTimeout(this.#idleTimer);
    return this;
  }

  markIdle(ms: number, ended: () => void): void {
    this.#idleTimer = setTimeout(() => {
      ended();
      void this.end();
    }, ms);
    this.#idleTimer.unref();
  }

  async end(): Promise<void> {
    this.ended = true;
    clearTimeout(this.#idleTimer);
    await this.#worker.terminate();
  }

  #onAnswer(answer: ThreadAnswer): void {
    if ('value' in answer) this.#pending?.resolve(answer.value);
    else if ('failure' in answer) {
      const { code, message, result } = answer.failure;
      this.#pending?.reject(new Failure(code, message, result));
    } else this.#pending?.reject(new Error(`a body thread failed: ${answer.fault}`));
  }
}
