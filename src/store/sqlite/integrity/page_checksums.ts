// Maintains the checksum file of the store (see checksum_file.ts): after each commit it reads the frames that the commit appended to the
// log, and appends their checksums. These are durable before a checkpoint, so that no page in the store is newer than its checksum.
import {
  closeSync,
  fdatasync,
  fdatasyncSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import {
  checksumFileOf,
  checksumOf,
  encodeRecord,
  encodeSnapshot,
  type LogPosition,
  readChecksumFile,
  setSum,
} from './checksum_file.ts';
import { framesAfter, isSameLog, readLogHeader } from './wal_file.ts';

const syncEveryMs = 1_000;
/** A new snapshot is written when the records after it exceed its size by this many bytes. */
const recordBytesMin = 1 << 20;
const pageSizeOffset = 16;

export class PageChecksums {
  readonly #storeFile: string;
  readonly #path: string;
  readonly #storeDescriptor: number;
  #sums: number[] = [0];
  #position: LogPosition = { salt1: 0, salt2: 0, frame: 0 };
  /** The frame with the newest content of each page in the log. */
  readonly #inLog = new Map<number, number>();
  #logDescriptor: number | undefined;
  #sumsDescriptor: number | undefined;
  #recordBytes = 0;
  #isUnsynced = false;
  /** Records appended since the file was opened. */
  #recordCount = 0;
  /** The last record may be torn, so the file has to be rewritten. */
  #isTorn = false;
  #timer: NodeJS.Timeout | undefined;

  /** Requires that SQLite has the store open and locked, and keeps the lock. `frames`: the number of frames in its log. */
  constructor(storeFile: string, frames: number) {
    this.#storeFile = storeFile;
    this.#path = checksumFileOf(storeFile);
    // Must not be closed before SQLite's own descriptor: that would release its lock.
    this.#storeDescriptor = openSync(storeFile, 'r');
    const known = readChecksumFile(this.#path);
    if (known === undefined || known === 'damaged') this.#sums = [0, ...this.storedChecksums()];
    else {
      this.#sums = [...known.sums];
      this.#position = known.position;
      this.#recordBytes = known.bytes;
    }
    this.#readNewFrames(frames);
    try {
      this.#writeSnapshot();
    } catch {
      // The disk is full. Throwing would close the store, which checkpoints its log: then pages would be newer than their checksums.
      this.#isTorn = true;
    }
    this.#timer = setInterval(() => this.#syncInBackground(), syncEveryMs).unref();
  }

  /** Called after a commit. `frames`: the number of frames in the log now. Never throws, because the commit is done. */
  onCommit(frames: number): void {
    try {
      const pages = this.#readNewFrames(frames);
      if (pages.size === 0) return;
      if (this.#isTorn) {
        this.#writeSnapshot();
        return;
      }
      this.#isTorn = true;
      const record = encodeRecord({ ...this.#position, pages });
      if (writeSync(this.#sumsDescriptor as number, record) < record.length) return;
      this.#isTorn = false;
      this.#isUnsynced = true;
      this.#recordCount++;
      this.#recordBytes += record.length;
    } catch {
      // The disk is full: the file is rewritten with the next commit, at the latest before a checkpoint.
      this.#isTorn = true;
    }
  }

  /** Called before a checkpoint. Throws if the checksums cannot be made durable: the checkpoint must not run then. */
  makeDurable(): void {
    if (this.#isTorn || this.#recordBytes > recordBytesMin + this.#sums.length * 4) this.#writeSnapshot();
    else if (this.#isUnsynced) fdatasyncSync(this.#sumsDescriptor as number);
    this.#isUnsynced = false;
  }

  /** Checksums of the pages in the file of the store, in page order. */
  *storedChecksums(): Generator<number> {
    const bytes = this.pageBytes;
    const page = Buffer.allocUnsafe(bytes);
    for (let offset = 0; readSync(this.#storeDescriptor, page, 0, bytes, offset) === bytes; offset += bytes)
      yield checksumOf(page);
  }

  get pageBytes(): number {
    const head = Buffer.alloc(2);
    readSync(this.#storeDescriptor, head, 0, 2, pageSizeOffset);
    const bytes = head.readUInt16BE(0);
    return bytes === 1 ? 65_536 : bytes || 4096;
  }

  /** For the thread that reads the pages, because the file must not be opened again. */
  get descriptor(): number {
    return this.#storeDescriptor;
  }

  /** The suspect pages that still differ when no write can run, and the pages whose content in the log differs. */
  findDiffering(suspects: Iterable<number>): number[] {
    const bytes = this.pageBytes;
    const page = Buffer.allocUnsafe(bytes);
    const found: number[] = [];
    const header = this.#logDescriptor === undefined ? undefined : readLogHeader(this.#logDescriptor);
    const isLogged = header !== undefined && isSameLog(header, this.#position);
    for (const number of suspects) {
      const sum = this.#sums[number] ?? 0;
      if (sum === 0 || (isLogged && this.#inLog.has(number))) continue;
      const read = readSync(this.#storeDescriptor, page, 0, bytes, (number - 1) * bytes);
      if (read < bytes || checksumOf(page) !== sum) found.push(number);
    }
    if (this.#logDescriptor === undefined || header === undefined || !isLogged) return found;
    for (const { number, page: logged, content } of framesAfter(this.#logDescriptor, header, 0, this.#position.frame))
      if (this.#inLog.get(logged) === number && checksumOf(content) !== this.#sums[logged]) found.push(logged);
    return found.sort((a, b) => a - b);
  }

  sumOf(page: number): number {
    return this.#sums[page] ?? 0;
  }

  get pageCount(): number {
    return this.#sums.length - 1;
  }

  /** Called after SQLite has closed the store. */
  close(): void {
    clearInterval(this.#timer);
    // Writes nothing, because another server may have opened the store by now.
    for (const file of [this.#storeDescriptor, this.#logDescriptor, this.#sumsDescriptor])
      if (file !== undefined) closeSync(file);
  }

  /** Called when the log has been checkpointed and is empty: a missing log is no loss from now on. Throws if the disk is full. */
  onLogEmptied(): void {
    this.#position = { salt1: 0, salt2: 0, frame: 0 };
    this.#writeSnapshot();
  }

  /** Called before the store is closed, which checkpoints the log. If the file has to be deleted, the next start compares no pages. */
  prepareClose(): void {
    try {
      this.makeDurable();
    } catch {
      rmSync(this.#path, { force: true });
    }
  }

  /** @returns the checksums of the pages that changed since the last call. */
  #readNewFrames(frames: number): Map<number, number> {
    const changed = new Map<number, number>();
    if (frames === 0) return changed;
    this.#logDescriptor ??= openSync(`${this.#storeFile}-wal`, 'r');
    const header = readLogHeader(this.#logDescriptor);
    if (!header) return changed;
    const isSame = isSameLog(header, this.#position);
    if (!isSame) this.#inLog.clear();
    // At start the frames before the position are not in memory yet.
    const after = isSame && this.#inLog.size > 0 ? this.#position.frame : 0;
    let pagesAfter = 0;
    for (const frame of framesAfter(this.#logDescriptor, header, after, frames)) {
      const sum = checksumOf(frame.content);
      changed.set(frame.page, sum);
      this.#inLog.set(frame.page, frame.number);
      setSum(this.#sums, frame.page, sum);
      pagesAfter = frame.pagesAfter || pagesAfter;
    }
    if (pagesAfter > 0 && this.#sums.length > pagesAfter + 1) this.#sums.length = pagesAfter + 1;
    this.#position = { salt1: header.salt1, salt2: header.salt2, frame: frames };
    return changed;
  }

  #writeSnapshot(): void {
    const draft = `${this.#path}.draft`;
    writeFileSync(draft, encodeSnapshot(this.#sums, this.#position), { mode: 0o600, flush: true });
    renameSync(draft, this.#path);
    syncDirectory(dirname(this.#path));
    if (this.#sumsDescriptor !== undefined) closeSync(this.#sumsDescriptor);
    this.#sumsDescriptor = openSync(this.#path, 'a', 0o600);
    this.#recordBytes = 0;
    this.#isUnsynced = false;
    this.#isTorn = false;
  }

  #syncInBackground(): void {
    if (!this.#isUnsynced || this.#sumsDescriptor === undefined) return;
    const records = this.#recordCount;
    fdatasync(this.#sumsDescriptor, (error) => {
      if (error) this.#isTorn = true;
      else if (records === this.#recordCount) this.#isUnsynced = false;
    });
  }
}

/** Makes the rename of a file durable. */
function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
