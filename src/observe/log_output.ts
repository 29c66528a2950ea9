// Where the lines of the log go: a file descriptor, written without blocking the event loop. A reader that is slow, gone (a closed
// terminal or pipe) or out of space costs lines and never the server; what is left is written when the process exits.
import { write, writeSync } from 'node:fs';

const pendingBytesMax = 16 * 1024 * 1024;
/** Lines of so long are one write: each is a job for another thread, and waking that costs more than the line. */
const writeEveryMs = 10;
const exitWaitMsMax = 500;
const writeWaitMs = 100;
/** Nobody will ever read it again. */
const gone = new Set(['EPIPE', 'EIO', 'EBADF']);

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
    this.#timer ??= setTimeout(() => this.#writeNext(), writeEveryMs).unref();
  }

  #writeNext(): void {
    this.#timer = undefined;
    this.#isWriting = true;
    const bytes = this.#takeAll();
    write(this.#fd, bytes, (error, written) => {
      this.#isWriting = false;
      if (error) this.#failed(error, bytes);
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

  #failed(error: NodeJS.ErrnoException, bytes: Buffer): void {
    this.#isGone = gone.has(error.code ?? '');
    if (this.#isGone) this.#takeAll();
    else this.#putBack(bytes);
  }

  /** At the exit of the process: for a reader that is only slow there is a little time. */
  #flush(): void {
    // What is being written is in another thread: it needs only a moment, and what follows must come after it.
    if (this.#isWriting) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, writeWaitMs);
    const deadline = performance.now() + exitWaitMsMax;
    while (this.#pending.length > 0 && performance.now() < deadline) {
      const bytes = this.#takeAll();
      try {
        const written = writeSync(this.#fd, bytes);
        if (written < bytes.length) this.#putBack(bytes.subarray(written));
      } catch (error) {
        this.#failed(error as NodeJS.ErrnoException, bytes);
      }
    }
  }
}

/** The only one of the process: two would write into each other's lines. */
export const standardError = new LogOutput(2);
