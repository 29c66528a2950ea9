// Compares the file of the store and its log with the checksum file before SQLite opens them: SQLite accepts changed bytes, and silently
// drops everything after a damaged frame in its log.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { requireRegularFiles } from '../../../operator/operator_file.ts';
import { type ChecksumFile, checksumFileOf, checksumOf, readChecksumFile } from './checksum_file.ts';
import { framesAfter, isSameLog, lastCommittedFrame, readLogHeader } from './wal_file.ts';

export interface StoreFaults {
  /** A description of each fault; empty if everything that was read is as it was written. */
  readonly faults: readonly string[];
  /** Whether all pages were read. */
  readonly isComplete: boolean;
}

const pagesShownMax = 10;
const pageSizeOffset = 16;
const pageCountOffset = 28;
const headerBytes = 32;
/** How often the clock is read. */
const pagesPerClockRead = 64;

/** `untilMs`: the deadline in terms of performance.now(). Changes nothing. Throws OperatorError if one of the files is a directory. */
export function checkStoreFile(storeFile: string, untilMs = Number.POSITIVE_INFINITY): StoreFaults {
  requireRegularFiles([storeFile, `${storeFile}-wal`, checksumFileOf(storeFile)]);
  const known = readChecksumFile(checksumFileOf(storeFile));
  if (known === undefined) return { faults: [], isComplete: true };
  if (known === 'damaged')
    return { faults: ['the file of its checksums is damaged: its pages cannot be compared'], isComplete: true };
  const log = checkLog(storeFile, known);
  const pages = checkPages(storeFile, known, log.pagesInLog, untilMs);
  const faults = [...log.faults];
  const orChecksums = known.isBroken ? ', or the file of its checksums is damaged' : '';
  if (pages.differing.length > 0) faults.push(describePages(pages.differing, log.isReplaced) + orChecksums);
  return { faults, isComplete: pages.isComplete };
}

export function describePages(pages: readonly number[], isLogReplaced = false): string {
  const shown = pages.slice(0, pagesShownMax).join(', ');
  const more = pages.length > pagesShownMax ? ` and ${pages.length - pagesShownMax} more` : '';
  const which = pages.length === 1 ? `page ${shown} differs` : `${pages.length} pages differ (${shown}${more})`;
  return `${which} from what was written${isLogReplaced ? ', or its write-ahead log of acknowledged changes is missing' : ''}`;
}

interface CheckedLog {
  readonly faults: readonly string[];
  /** Pages whose newest content is in the log, or was in a lost part of it. */
  readonly pagesInLog: ReadonlySet<number>;
  /** The log is missing, or is not the one that the checksums refer to. */
  readonly isReplaced: boolean;
}

function checkLog(storeFile: string, { sums, position, commits }: ChecksumFile): CheckedLog {
  const elsewhere = new Set<number>();
  const file = openIfExists(`${storeFile}-wal`);
  try {
    const header = file === undefined ? undefined : readLogHeader(file);
    if (file === undefined || !header) return { faults: [], pagesInLog: elsewhere, isReplaced: position.frame > 0 };
    const last = lastCommittedFrame(file, header);
    const isKnown = isSameLog(header, position);
    const newest = new Map<number, { readonly frame: number; readonly sum: number }>();
    for (const { number, page, content } of framesAfter(file, header, 0, last))
      newest.set(page, { frame: number, sum: checksumOf(content) });
    for (const page of newest.keys()) elsewhere.add(page);
    const faults: string[] = [];
    const lost = isKnown ? commits.filter((commit) => isSameLog(commit, header) && commit.frame > last) : [];
    for (const { pages } of lost) for (const page of pages.keys()) elsewhere.add(page);
    if (isKnown && position.frame > last)
      faults.push(
        `its write-ahead log is damaged or cut after frame ${last} of ${position.frame}: ${describeLost(lost.length)} lost`,
      );
    const differing = [...newest].filter(
      ([page, { frame, sum }]) =>
        isKnown && lost.length === 0 && frame <= position.frame && sums[page] !== sum && last === position.frame,
    );
    if (differing.length > 0) faults.push(`in its write-ahead log, ${describePages(differing.map(([page]) => page))}`);
    return { faults, pagesInLog: elsewhere, isReplaced: !isKnown && position.frame > 0 && last === 0 };
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

const describeLost = (count: number) =>
  count === 1 ? 'the last acknowledged transaction is' : `the last ${count || 'few'} acknowledged transactions are`;

function checkPages(storeFile: string, { sums }: ChecksumFile, elsewhere: ReadonlySet<number>, untilMs: number) {
  const differing: number[] = [];
  const file = openIfExists(storeFile);
  if (file === undefined) return { differing, isComplete: true };
  try {
    const head = Buffer.alloc(headerBytes);
    readSync(file, head, 0, headerBytes, 0);
    const bytes = head.readUInt16BE(pageSizeOffset) === 1 ? 65_536 : head.readUInt16BE(pageSizeOffset);
    // A store that has shrunk has fewer pages than there are checksums. A changed page count is detected by the checksum of the first page.
    const pages = Math.min(sums.length - 1, head.readUInt32BE(pageCountOffset) || sums.length - 1);
    const page = Buffer.allocUnsafe(Math.max(512, bytes));
    const { size } = fstatSync(file);
    for (let number = 1; number <= pages; number++) {
      if (number % pagesPerClockRead === 0 && performance.now() > untilMs) return { differing, isComplete: false };
      const sum = sums[number] ?? 0;
      if (sum === 0 || elsewhere.has(number)) continue;
      const read = number * bytes > size ? 0 : readSync(file, page, 0, bytes, (number - 1) * bytes);
      if (read < bytes || checksumOf(page.subarray(0, bytes)) !== sum) differing.push(number);
    }
    return { differing, isComplete: true };
  } finally {
    closeSync(file);
  }
}

function openIfExists(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
