// The file of a result that grows, which is written in blocks. Complete blocks bypass the page cache of the system where it permits that: their
// readers find them in memory (recent_blocks.ts). Copying them there takes processor time, and most of the time of a result in a virtual machine
// that returns unused memory to its host (docs/performance.md).
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';

export const blockBytes = 1024 * 1024;
/** A disk that takes no longer for a block keeps up with the rows. */
const quickMs = 4;
/** So many blocks are written in the better way before one is written in the other, to know how long that takes now. */
const comparedEvery = 32;
/** The weight of the last block in the average of its way. */
const lastWeight = 0.25;
/** How long a block took recently, in milliseconds, of all files; 0: unknown. */
const averageMs = { direct: 0, cached: 0 };
let sinceCompared = 0;

function isDirectBetter(): boolean {
  const isBetter = averageMs.direct <= Math.max(averageMs.cached, quickMs);
  if (++sinceCompared < comparedEvery) return isBetter;
  sinceCompared = 0;
  return !isBetter;
}

async function timed<T>(way: keyof typeof averageMs, write: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  const result = await write();
  const ms = performance.now() - begun;
  averageMs[way] = averageMs[way] === 0 ? ms : averageMs[way] + lastWeight * (ms - averageMs[way]);
  return result;
}

const webAssemblyPageBytes = 64 * 1024;
/** Its types are those of browsers. */
declare const WebAssembly: {
  readonly Memory: new (pages: {
    readonly initial: number;
    readonly maximum: number;
  }) => { readonly buffer: ArrayBuffer };
};

/** A block that a disk can read from: its address is a multiple of the size of a page. Only the memory of WebAssembly is always allocated so. */
export function alignedBlock(): Buffer {
  try {
    const pages = blockBytes / webAssemblyPageBytes;
    return Buffer.from(new WebAssembly.Memory({ initial: pages, maximum: pages }).buffer);
  } catch {
    // The system does not give the addresses that such a memory reserves.
    return Buffer.allocUnsafeSlow(blockBytes);
  }
}

export class BlockFile {
  readonly #handle: FileHandle;
  /** Writes complete blocks from aligned memory to multiples of their size. */
  #direct: FileHandle | undefined;

  private constructor(handle: FileHandle, direct: FileHandle | undefined) {
    this.#handle = handle;
    this.#direct = direct;
  }

  static async create(path: string, options: { readonly bypassesCache: boolean }): Promise<BlockFile> {
    const handle = await open(path, 'w', 0o600);
    return new BlockFile(handle, options.bypassesCache ? await openDirect(path) : undefined);
  }

  /** `position`: a multiple of the size of a block. */
  async write(bytes: Buffer, position: number): Promise<void> {
    const direct = bytes.length === blockBytes && isDirectBetter() ? this.#direct : undefined;
    const done = direct ? await timed('direct', () => this.#writeDirect(direct, bytes, position)) : 0;
    if (done === bytes.length) return;
    if (bytes.length < blockBytes) await this.#writeCached(bytes, done, position);
    else await timed('cached', () => this.#writeCached(bytes, done, position));
  }

  /** @returns the number of bytes that were written, 0 if the block has to go through the page cache. */
  async #writeDirect(direct: FileHandle, block: Buffer, position: number): Promise<number> {
    try {
      return (await direct.write(block, 0, blockBytes, position)).bytesWritten;
    } catch {
      // The file system, or the address of this block, does not permit it, or the disk has failed, which writing it again shows.
      await this.#closeDirect();
      return 0;
    }
  }

  /** A nearly full disk accepts only a part of the bytes; writing the rest throws the reason. */
  async #writeCached(bytes: Buffer, from: number, position: number): Promise<void> {
    for (let done = from; done < bytes.length; )
      done += (await this.#handle.write(bytes, done, bytes.length - done, position + done)).bytesWritten;
  }

  async close(): Promise<void> {
    await this.#closeDirect();
    await this.#handle.close();
  }

  async #closeDirect(): Promise<void> {
    const direct = this.#direct;
    this.#direct = undefined;
    await direct?.close();
  }
}

async function openDirect(path: string): Promise<FileHandle | undefined> {
  // Only some systems have it.
  const flag: number | undefined = constants.O_DIRECT;
  if (flag === undefined) return undefined;
  try {
    return await open(path, constants.O_WRONLY | flag);
  } catch {
    return undefined;
  }
}
