// Keeps the checksums of the store's pages (sums_file.ts) up to date: after each commit it reads the frames that the commit appended to
// the log, and appends their checksums. Written before the log is put into the store, so that there is never a newer page than checksum.
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
/** The records after the snapshot may be this much larger than it. */
const recordBytesMin = 1 << 20;
const pageSizeOffset = 16;

export class PageChecksums {
  readonly #storeFile: string;
  readonly #path: string;
  readonly #storeDescriptor: number;
  #sums: number[] = [0];
  #position: LogPosition = { salt1: 0, salt2: 0, frame: 0 };
  /** Pages whose newest content is in the log, and the frame that has it. */
  readonly #inLog = new Map<number, number>();
  #logDescriptor: number | undefined;
  #sumsDescriptor: number | undefined;
  #recordBytes = 0;
  #isUnsynced = false;
  /** Appended in all. */
  #recordCount = 0;
  /** What was appended last may be cut: the file is written anew. */
  #isTorn = false;
  #timer: NodeJS.Timeout | undefined;

  /** SQLite has the store open and locked, and continues to hold the lock. `frames`: how many its log has. */
  constructor(storeFile: string, frames: number) {
    this.#storeFile = storeFile;
    this.#path = checksumFileOf(storeFile);
    // Never closed before SQLite's own: that would release its lock.
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
      // A full disk. To fail would close the store, which puts its log into it: then its pages were newer than their checksums.
      this.#isTorn = true;
    }
    this.#timer = setInterval(() => this.#syncInBackground(), syncEveryMs).unref();
  }

  /** After a commit. `frames`: how many the log has now. Never throws: the commit is done. */
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
      // A full disk: written anew with the next commit, at the latest before the log is put into the store.
      this.#isTorn = true;
    }
  }

  /** Before the log is put into the store. Throws where the checksums cannot be made durable: the log has to stay then. */
  makeDurable(): void {
    if (this.#isTorn || this.#recordBytes > recordBytesMin + this.#sums.length * 4) this.#writeSnapshot();
    else if (this.#isUnsynced) fdatasyncSync(this.#sumsDescriptor as number);
    this.#isUnsynced = false;
  }

  /** Checksums of the pages in the file of the store, first page first. */
  *storedChecksums(): Generator<number> {
    const bytes = this.pageBytes;
    const page = Buffer.allocUnsafe(bytes);
    for (let at = 0; readSync(this.#storeDescriptor, page, 0, bytes, at) === bytes; at += bytes) yield checksumOf(page);
  }

  get pageBytes(): number {
    const head = Buffer.alloc(2);
    readSync(this.#storeDescriptor, head, 0, 2, pageSizeOffset);
    const bytes = head.readUInt16BE(0);
    return bytes === 1 ? 65_536 : bytes || 4096;
  }

  /** For a thread that reads the pages: they may not be opened again. */
  get descriptor(): number {
    return this.#storeDescriptor;
  }

  /** Of pages found to differ while the store was in use, those that do differ; and those of the log. */
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
    for (const { number, page: of, content } of framesAfter(this.#logDescriptor, header, 0, this.#position.frame))
      if (this.#inLog.get(of) === number && checksumOf(content) !== this.#sums[of]) found.push(of);
    return found.sort((one, other) => one - other);
  }

  sumOf(page: number): number {
    return this.#sums[page] ?? 0;
  }

  get pageCount(): number {
    return this.#sums.length - 1;
  }

  /** After SQLite has closed the store. */
  close(): void {
    clearInterval(this.#timer);
    // Nothing is written: another server may have the store by now.
    for (const file of [this.#storeDescriptor, this.#logDescriptor, this.#sumsDescriptor])
      if (file !== undefined) closeSync(file);
  }

  /** The log is in the store, and empty: that there is none from now on is no loss. Throws on a full disk. */
  onLogEmptied(): void {
    this.#position = { salt1: 0, salt2: 0, frame: 0 };
    this.#writeSnapshot();
  }

  /** Before the store is closed, which puts the log into it. Without checksums none are compared at the next start. */
  prepareClose(): void {
    try {
      this.makeDurable();
    } catch {
      rmSync(this.#path, { force: true });
    }
  }

  /** @returns what changed since the last time. */
  #readNewFrames(frames: number): Map<number, number> {
    const changed = new Map<number, number>();
    if (frames === 0) return changed;
    this.#logDescriptor ??= openSync(`${this.#storeFile}-wal`, 'r');
    const header = readLogHeader(this.#logDescriptor);
    if (!header) return changed;
    const isSame = isSameLog(header, this.#position);
    if (!isSame) this.#inLog.clear();
    // At the opening the frames before the position are not in memory yet.
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

/** So that a file that was renamed has its name after a power failure. */
function syncDirectory(path: string): void {
  const directory = openSync(path, 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}
