// Writes log lines to a file descriptor without blocking the event loop. If the reader is slow, gone (a closed terminal or pipe) or out of
// space, lines are lost but the server is not affected. Pending lines are written when the process exits.
import { write, writeSync } from 'node:fs';

const pendingBytesMax = 16 * 1024 * 1024;
/** Lines of this period are written at once: each write wakes another thread, which costs more than a line. */
const writeIntervalMs = 10;
const exitWaitMsMax = 500;
const writeWaitMs = 100;
/** The reader is gone for good. */
const readerGoneCodes = new Set(['EPIPE', 'EIO', 'EBADF']);

export class LogOutput {
  readonly #fd: number;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;
  #isGone = false;

  constructor(fd: number) {
    this.#fd = fd;
    process.once('exit', () => this.#flush());
  }

  write(line: string): void {
    if (this.#isGone || this.#pendingBytes > pendingBytesMax) return;
    const bytes = Buffer.from(line);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    if (!this.#isWriting) this.#writeSoon();
  }

  #writeSoon(): void {
    this.#timer ??= setTimeout(() => this.#writeNext(), writeIntervalMs).unref();
  }

  #writeNext(): void {
    this.#timer = undefined;
    this.#isWriting = true;
    const bytes = this.#takeAll();
    write(this.#fd, bytes, (error, written) => {
      this.#isWriting = false;
      if (error) this.#onWriteError(error, bytes);
      else if (written < bytes.length) this.#putBack(bytes.subarray(written));
      if (this.#pending.length > 0) this.#writeSoon();
    });
  }

  #takeAll(): Buffer {
    const bytes = Buffer.concat(this.#pending);
    this.#pending = [];
    this.#pendingBytes = 0;
    return bytes;
  }

  #putBack(bytes: Buffer): void {
    this.#pending.unshift(bytes);
    this.#pendingBytes += bytes.length;
  }

  #onWriteError(error: NodeJS.ErrnoException, bytes: Buffer): void {
    this.#isGone = readerGoneCodes.has(error.code ?? '');
    if (this.#isGone) this.#takeAll();
    else this.#putBack(bytes);
  }

  /** Called when the process exits; a slow reader gets a limited time. */
  #flush(): void {
    // A write in another thread ends soon, and the following lines must come after it.
    if (this.#isWriting) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, writeWaitMs);
    const deadline = performance.now() + exitWaitMsMax;
    while (this.#pending.length > 0 && performance.now() < deadline) {
      const bytes = this.#takeAll();
      try {
        const written = writeSync(this.#fd, bytes);
        if (written < bytes.length) this.#putBack(bytes.subarray(written));
      } catch (error) {
        this.#onWriteError(error as NodeJS.ErrnoException, bytes);
      }
    }
  }
}

/** The only instance in the process: two would interleave their lines. */
export const standardError = new LogOutput(2);
