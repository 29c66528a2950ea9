// Worker threads that convert the rows of exports to files, so that the main thread, which answers all requests, stays responsive: their
// number, memory, deadlines and ends. See conversion_thread.ts for the work. Bytes are passed to them, never parsed values.
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { FairPlaces } from '../../../model/concurrency/fair_share.ts';
import { Failure } from '../../../standard/failure.ts';
import { EngineLost } from '../../engine_lost.ts';
import { cancelledFailure, timeoutFailure } from '../connection/clickhouse_error.ts';
import type { ConversionRequest, ConvertedFiles, ThreadAnswer, ThreadRequest } from './conversion.ts';

export interface ConversionThreadsOptions {
  readonly script: URL;
  /** Beyond it, as many more exports run of principals that have none: the long exports of one do not keep those of others waiting. */
  readonly threadsMax: number;
  /** Of the heap of a thread. Its other memory is bounded by the size of a batch, a row group and a row. */
  readonly heapBytesMax: number;
  /** A thread that is idle for this long ends, which frees its memory. */
  readonly idleMs: number;
}

interface Limits {
  /** Whose export it is. */
  readonly principalId: string;
  readonly signal: AbortSignal;
  /** Of the whole run, waiting for a thread included. */
  readonly timeoutMs: number;
}

const MiB = 1024 * 1024;
/** Rows are passed on in blocks of about this size; so many of them can wait for a thread. */
const blockBytes = MiB / 4;
const blocksMax = 8;
const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './conversion_thread.ts' : './conversion_thread.js', url);

export class ConversionThreads {
  readonly #options: ConversionThreadsOptions;
  readonly #idle: ConversionThread[] = [];
  readonly #places: FairPlaces;

  constructor(options: Partial<ConversionThreadsOptions> = {}) {
    const threadsMax = Math.max(2, availableParallelism());
    this.#options = { script, threadsMax, heapBytesMax: 512 * MiB, idleMs: 30_000, ...options };
    this.#places = new FairPlaces(this.#options.threadsMax);
  }

  /**
   * Converts the rows that `work` adds. Throws what `work` throws, the failures of the conversion (FILE_QUOTA_EXCEEDED, STORAGE_FULL,
   * SQL_INVALID, MEMORY_LIMIT_EXCEEDED), STATEMENT_CANCELLED, STATEMENT_TIMEOUT, and WAREHOUSE_FAILED if the thread ends. Nothing writes
   * to the directory any more when it returns or throws.
   */
  async run(
    request: ConversionRequest,
    limits: Limits,
    work: (thread: RowsTaker) => Promise<ConvertedFiles>,
  ): Promise<ConvertedFiles> {
    const { principalId, signal, timeoutMs } = limits;
    const stopped = Promise.withResolvers<never>();
    stopped.promise.catch(() => undefined);
    let reason: Failure | undefined;
    let thread: ConversionThread | undefined;
    const stop = (failure: Failure) => {
      reason ??= failure;
      stopped.reject(reason);
      thread?.fail(reason);
    };
    const cancel = () => stop(cancelledFailure('notApplied'));
    const timer = setTimeout(() => stop(timeoutFailure(timeoutMs, 'notApplied')), timeoutMs);
    signal.addEventListener('abort', cancel, { once: true });
    try {
      if (signal.aborted) cancel();
      await this.#places.take(principalId, stopped.promise);
      try {
        if (reason) throw reason;
        thread = this.#take();
        return await this.#converted(thread, request, work);
      } finally {
        this.#places.leave(principalId);
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
    }
  }

  async #converted(
    thread: ConversionThread,
    request: ConversionRequest,
    work: (thread: RowsTaker) => Promise<ConvertedFiles>,
  ): Promise<ConvertedFiles> {
    try {
      thread.begin(request);
      const files = await work(thread);
      this.#release(thread);
      return files;
    } catch (error) {
      await thread.end();
      throw error;
    }
  }

  #take(): ConversionThread {
    for (let idle = this.#idle.pop(); idle; idle = this.#idle.pop()) if (!idle.hasEnded) return idle;
    return new ConversionThread(this.#options);
  }

  #release(thread: ConversionThread): void {
    this.#idle.push(thread);
    thread.rest(this.#options.idleMs, () => {
      const at = this.#idle.indexOf(thread);
      if (at >= 0) this.#idle.splice(at, 1);
    });
  }
}

/** One export, in a thread. */
export interface RowsTaker {
  /** `bytes`: the next ones of the rows, as the server streams them. Waits while the thread is behind. */
  add(bytes: Buffer): Promise<void>;
  /** Completes the files. */
  finish(): Promise<ConvertedFiles>;
}

class ConversionThread implements RowsTaker {
  readonly #worker: Worker;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #inFlight = 0;
  #failure: { readonly error: unknown } | undefined;
  #files: ConvertedFiles | undefined;
  #waiter: PromiseWithResolvers<void> | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  hasEnded = false;

  constructor({ script, heapBytesMax }: ConversionThreadsOptions) {
    this.#worker = new Worker(script, { resourceLimits: { maxOldGenerationSizeMb: Math.ceil(heapBytesMax / MiB) } });
    this.#worker.on('message', (answer: ThreadAnswer) => this.#onAnswer(answer));
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      this.hasEnded = true;
      this.fail(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? outOfMemory() : error);
    });
    this.#worker.on('exit', () => {
      this.hasEnded = true;
      clearTimeout(this.#idleTimer);
      this.fail(threadLost());
    });
  }

  begin(request: ConversionRequest): void {
    clearTimeout(this.#idleTimer);
    this.#worker.ref();
    this.#files = undefined;
    this.#send({ kind: 'begin', request });
  }

  async add(bytes: Buffer): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    this.#chunks.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes < blockBytes) return;
    this.#sendBlock();
    while (this.#inFlight >= blocksMax) await this.#nextAnswer();
  }

  async finish(): Promise<ConvertedFiles> {
    if (this.#bytes > 0) this.#sendBlock();
    this.#send({ kind: 'end' });
    while (!this.#files) await this.#nextAnswer();
    return this.#files;
  }

  /** The conversion ends with this error, unless it has ended before. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#waiter?.reject(this.#failure.error);
  }

  /** Unreferenced: it does not keep the process alive. */
  rest(idleMs: number, onEnd: () => void): void {
    this.#worker.unref();
    this.#idleTimer = setTimeout(() => {
      onEnd();
      void this.end();
    }, idleMs).unref();
  }

  /** Resolves when it no longer writes. */
  async end(): Promise<void> {
    this.hasEnded = true;
    this.#chunks = [];
    await this.#worker.terminate();
  }

  #sendBlock(): void {
    // The memory of a chunk can belong to others too; that of the block becomes the thread's.
    const rows = new Uint8Array(this.#bytes);
    let at = 0;
    for (const chunk of this.#chunks) {
      rows.set(chunk, at);
      at += chunk.length;
    }
    this.#chunks = [];
    this.#bytes = 0;
    this.#inFlight++;
    this.#send({ kind: 'rows', rows }, [rows.buffer]);
  }

  #send(request: ThreadRequest, transferred: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage(request, transferred);
  }

  async #nextAnswer(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    this.#waiter = Promise.withResolvers();
    await this.#waiter.promise;
  }

  #onAnswer(answer: ThreadAnswer): void {
    switch (answer.kind) {
      case 'taken':
        this.#inFlight--;
        break;
      case 'files':
        this.#files = answer.files;
        break;
      case 'failure': {
        const { code, message, result, outcome } = answer;
        this.fail(new Failure(code, message, result, { outcome }));
        break;
      }
      case 'fault':
        this.fail(new Error(`an export thread failed: ${answer.text}`));
        break;
    }
    this.#waiter?.resolve();
  }
}

const outOfMemory = () =>
  new Failure('MEMORY_LIMIT_EXCEEDED', 'a row of the export needs more memory than the limit for one export');

const threadLost = () =>
  new Failure(
    'WAREHOUSE_FAILED',
    'the thread that writes the files of the export stopped',
    {},
    { cause: new EngineLost({ isToBlame: false }), outcome: 'notApplied' },
  );
