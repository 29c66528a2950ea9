// Pieces of large files, cut by a thread: copied through the main one, each megabyte of a backup would wait for the requests of a busy
// server, and they for it.
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
  #nextId = 1;

  constructor() {
    this.#thread.on('message', (answered: CutAnswer) => {
      const pending = this.#pending.get(answered.id);
      this.#pending.delete(answered.id);
      if ('sha256' in answered) pending?.resolve(answered.sha256);
      else pending?.reject(Object.assign(new Error(answered.fault), { code: answered.code }));
    });
    const lost = (why: unknown) => {
      for (const pending of this.#pending.values())
        pending.reject(new Error('the thread that copies files has ended', { cause: why }));
      this.#pending.clear();
    };
    this.#thread.on('error', lost);
    this.#thread.on('exit', lost);
  }

  /** The SHA-256 of the piece, in hexadecimal. Throws what the system says, such as ENOENT. */
  cut(request: CutRequest): Promise<string> {
    const id = this.#nextId++;
    const pending = Promise.withResolvers<string>();
    this.#pending.set(id, pending);
    this.#thread.postMessage({ id, request });
    return pending.promise;
  }

  async stop(): Promise<void> {
    await this.#thread.terminate();
  }
}
