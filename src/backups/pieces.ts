// Cuts pieces out of large files in a worker thread. Copied on the main thread, each megabyte of a backup would delay the requests of a
// busy server, and be delayed by them.
import { addAbortListener } from 'node:events';
import { Worker } from 'node:worker_threads';

export interface CutRequest {
  /** A path, or a descriptor that stays open. */
  readonly from: string | number;
  readonly start: number;
  readonly bytes: number;
  /** A file that does not exist yet. */
  readonly to: string;
}

export type CutAnswer =
  | { readonly id: number; readonly sha256: string }
  | { readonly id: number; readonly fault: string; readonly code: string | undefined };

const { url } = import.meta;
const script = new URL(url.endsWith('.ts') ? './piece_thread.ts' : './piece_thread.js', url);

export class Pieces {
  readonly #thread = new Worker(script);
  readonly #pending = new Map<number, PromiseWithResolvers<string>>();
  readonly #listening: Disposable;
  #nextId = 1;
  /** The reason why the thread no longer answers. */
  #lost: unknown;

  /**
   * The signal ends the thread. A piece in progress is rejected only after the thread has ended, so that its descriptor can be closed
   * then.
   */
  constructor(signal: AbortSignal) {
    this.#thread.on('message', (answered: CutAnswer) => {
      const pending = this.#pending.get(answered.id);
      this.#pending.delete(answered.id);
      if ('sha256' in answered) pending?.resolve(answered.sha256);
      else pending?.reject(Object.assign(new Error(answered.fault), { code: answered.code }));
    });
    const failPending = (cause: unknown) => {
      const isAborted = signal.aborted;
      this.#lost ??= isAborted ? signal.reason : new Error('the thread that copies files has ended', { cause });
      for (const pending of this.#pending.values()) pending.reject(this.#lost);
      this.#pending.clear();
    };
    this.#thread.on('error', failPending);
    this.#thread.on('exit', failPending);
    this.#listening = addAbortListener(signal, () => void this.#thread.terminate());
  }

  /** Returns the SHA-256 of the piece in hexadecimal. Throws system errors such as ENOENT. */
  async cut(request: CutRequest): Promise<string> {
    if (this.#lost !== undefined) throw this.#lost;
    const id = this.#nextId++;
    const pending = Promise.withResolvers<string>();
    this.#pending.set(id, pending);
    this.#thread.postMessage({ id, request });
    return pending.promise;
  }

  async stop(): Promise<void> {
    this.#listening[Symbol.dispose]();
    await this.#thread.terminate();
  }
}
