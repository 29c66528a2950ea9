// The body of a response as a stream that ends only if the body is complete. A server that fails in the middle of a response has sent the
// status 200: newer ones then break the body off, older ones end it in order; all of them send the error as its last bytes.
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type ClickHouseError, parseError } from './clickhouse_error.ts';

/** An error at the end of a body is at most as long as this. */
const errorBytesMax = 32 * 1024;

interface BodyOptions {
  /** With which the server marks an error in this response; absent on older servers. */
  readonly tag: string | undefined;
  /** The whole body is an error. */
  readonly isFailed: boolean;
  /** The failure that readers of the body get. */
  readonly toReason: (error: unknown) => unknown;
}

export class ResponseBody extends Readable {
  #controller: Dispatcher.DispatchController | undefined;
  /** The last bytes, in which an error would be, after others. A body that is longer has a buffer twice as long as an error. */
  #tail: Buffer = Buffer.alloc(0);
  #tailBytes = 0;
  #lends = false;
  readonly #tag: string | undefined;
  readonly #isFailed: boolean;

  readonly #toReason: (error: unknown) => unknown;

  constructor(controller: Dispatcher.DispatchController, options: BodyOptions) {
    super({ highWaterMark: 1024 * 1024 });
    // It may fail before anyone reads it; who reads it later gets the error all the same.
    this.on('error', () => undefined);
    this.#controller = controller;
    this.#tag = options.tag;
    this.#isFailed = options.isFailed;
    this.#toReason = options.toReason;
  }

  override _read(): void {
    if (this.#controller?.paused) this.#controller.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const controller = this.#controller;
    this.#controller = undefined;
    if (controller && !controller.aborted) controller.abort(error ?? new Error('the response is not needed'));
    callback(error);
  }

  /** From now on chunks are not copied: one is valid, and may be changed, only while the listeners of `data` run. */
  lend(): void {
    this.#lends = true;
  }

  override resume(): this {
    super.resume();
    this._read();
    return this;
  }

  /** `chunk`: valid only during the call. */
  add(chunk: Buffer): void {
    // What its reader filled may have been given to another one.
    if (this.destroyed) return;
    this.#keepTail(chunk);
    const isFlowing = this.readableFlowing === true && this.readableLength === 0;
    if (this.#lends && isFlowing) {
      this.emit('data', chunk);
      if (this.isPaused()) this.#controller?.pause();
    } else if (!this.push(Buffer.from(chunk))) this.#controller?.pause();
  }

  #keepTail(chunk: Buffer): void {
    const added = chunk.subarray(Math.max(0, chunk.length - errorBytesMax));
    if (this.#tailBytes + added.length > this.#tail.length) this.#makeRoom(added.length);
    this.#tail.set(added, this.#tailBytes);
    this.#tailBytes += added.length;
  }

  /** Most bodies are small and have a single chunk. */
  #makeRoom(bytes: number): void {
    const old = this.#tail.subarray(Math.max(0, this.#tailBytes - errorBytesMax), this.#tailBytes);
    if (this.#tail.length < 2 * errorBytesMax)
      this.#tail = Buffer.allocUnsafe(old.length === 0 && bytes < errorBytesMax ? bytes : 2 * errorBytesMax);
    this.#tail.set(old);
    this.#tailBytes = old.length;
  }

  /** The server has ended the body in order. */
  complete(): void {
    this.#controller = undefined;
    const error = this.#error();
    if (error) this.destroy(this.#toReason(error) as Error);
    else this.push(null);
  }

  /** The connection was lost. @param lost the failure unless the body ends with the reason. */
  breakOff(lost: Error): void {
    this.#controller = undefined;
    this.destroy(this.#toReason(this.#error() ?? lost) as Error);
  }

  #error(): ClickHouseError | undefined {
    const text = this.#tail.toString('utf8', Math.max(0, this.#tailBytes - errorBytesMax), this.#tailBytes);
    if (this.#isFailed) return parseError(text) ?? parseError(`Code: 1001. DB::Exception: ${text}`);
    if (this.#tag !== undefined) {
      const [, marked] = text.split(`__exception__\r\n${this.#tag}\r\n`, 2);
      return marked === undefined ? undefined : parseError(marked);
    }
    const start = text.lastIndexOf('Code: ');
    return start >= 0 && /\(version [\d.]+[^\n]*\)\s*$/.test(text) ? parseError(text.slice(start)) : undefined;
  }
}
