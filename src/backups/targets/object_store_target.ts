// Backups in an object store, below a prefix. Objects are written atomically.
import type { Readable } from 'node:stream';
import type { ObjectStore } from '../../outbound/object_store.ts';
import type { BackupTarget, TargetFile } from './backup_target.ts';

export class ObjectStoreTarget implements BackupTarget {
  readonly #store: ObjectStore;
  readonly #prefix: string;

  /** `prefix`: empty, or ends with `/`. Closing this target closes the store. */
  constructor(store: ObjectStore, prefix: string) {
    this.#store = store;
    this.#prefix = prefix;
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncGenerator<TargetFile> {
    for await (const { key, bytes, modifiedAtMs } of this.#store.list(this.#prefix + prefix, signal))
      yield { path: key.slice(this.#prefix.length), bytes, modifiedAtMs };
  }

  async read(path: string, signal?: AbortSignal): Promise<Readable> {
    return (await this.#store.read(this.#prefix + path, signal)).body;
  }

  readSmall(path: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer> {
    return this.#store.readSmall(this.#prefix + path, bytesMax, signal);
  }

  readEnd(path: string, size: number, bytes: number, signal?: AbortSignal): Promise<Buffer> {
    const range = { start: Math.max(0, size - bytes), end: size };
    return this.#store.readRange(this.#prefix + path, range, signal);
  }

  write(path: string, from: string, signal?: AbortSignal): Promise<void> {
    return this.#store.writeFile(this.#prefix + path, from, signal);
  }

  writeSmall(path: string, text: string, signal?: AbortSignal): Promise<void> {
    return this.#store.writeSmall(this.#prefix + path, text, signal);
  }

  remove(path: string): Promise<void> {
    return this.#store.remove(this.#prefix + path);
  }

  clear(prefix: string, except?: string): Promise<void> {
    const kept = except === undefined ? undefined : this.#prefix + except;
    return this.#store.clear(this.#prefix + prefix, { except: kept });
  }

  close(): void {
    this.#store.close();
  }
}
