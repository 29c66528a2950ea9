// Reads the small files that an operator provides, and checks the kind of those that the server finds at its paths. Each error says in one
// sentence what is wrong and what to do.
import { closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';
import { OperatorError } from './operator_error.ts';

export interface OperatorFile {
  readonly path: string;
  /** What the file holds, as the subject of the sentence: `the token of root`. */
  readonly what: string;
  /** What to do if it cannot be read, as the end of the sentence. */
  readonly advice: string;
  readonly bytesMax?: number;
  /** The class of the errors; OperatorError by default. */
  readonly errorClass?: typeof OperatorError;
}

const bytesMaxDefault = 1024 * 1024;

/** Undefined if the file does not exist. Throws OperatorError. */
export function readOperatorFile(file: OperatorFile): Buffer | undefined {
  const { path, bytesMax = bytesMaxDefault } = file;
  let descriptor: number | undefined;
  try {
    // To open a FIFO without this flag waits for a writer.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) throw unreadable(file, `it is ${kindOf(stats)}`);
    if (stats.size > bytesMax) throw unreadable(file, `it has ${stats.size} bytes; at most ${bytesMax} are expected`);
    const bytes = Buffer.alloc(stats.size);
    let length = 0;
    for (let read = -1; length < bytes.length && read !== 0; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, length);
    return bytes.subarray(0, length);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw unreadable(file, describeCode(code), error);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** Like `readOperatorFile` for a file that must exist. */
export function requireOperatorFile(file: OperatorFile): Buffer {
  const bytes = readOperatorFile(file);
  if (bytes === undefined) throw unreadable(file, 'it does not exist');
  return bytes;
}

/** For files that the server itself writes: each that exists must be a regular file. Throws OperatorError. */
export function requireRegularFiles(paths: readonly string[]): void {
  for (const path of paths) requireKind(path, 'a file', (stats) => stats.isFile());
}

/** Throws OperatorError. */
export function requireDirectories(paths: readonly string[]): void {
  for (const path of paths) requireKind(path, 'a directory', (stats) => stats.isDirectory());
}

function requireKind(path: string, expected: string, isExpected: (stats: Stats) => boolean): void {
  const advice = 'move it away, and put back what was there, for example from a copy of the data directory';
  let stats: Stats | undefined;
  try {
    stats = statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    const why = describeCode((error as NodeJS.ErrnoException).code);
    throw new OperatorError(`${path} cannot be used (${why}): ${advice}`, { cause: error });
  }
  if (stats && !isExpected(stats))
    throw new OperatorError(`${path} is ${kindOf(stats)} where the server keeps ${expected}: ${advice}`);
}

function unreadable(file: OperatorFile, why: string, cause?: unknown): OperatorError {
  const { path, what, advice, errorClass: ErrorClass = OperatorError } = file;
  return new ErrorClass(`${what} cannot be read from ${path} (${why}); ${advice}`, { cause });
}

/** What a path is, with its article. */
export function kindOf(stats: Pick<Stats, 'isFile' | 'isDirectory' | 'isFIFO' | 'isSocket'>): string {
  if (stats.isFile()) return 'a file';
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a named pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

function describeCode(code: string | undefined): string {
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'this user may not read it';
    case 'ELOOP':
      return 'it is a symbolic link that leads to itself';
    case 'ENXIO':
      return 'it is a socket or a device';
    default:
      return code ?? 'unknown error';
  }
}
