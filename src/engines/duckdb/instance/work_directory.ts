// Where an engine process writes what is no catalog: results on their way, and what does not fit its memory. A directory of its own
// that nobody can guess, so that no path in a statement, however it is written, leads there.
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Where the engine may open files. */
export interface FileAccess {
  /** Of this, the catalogs. */
  readonly dataDirectory: string;
  /** Of this process alone: two that spill into one directory would write over each other. */
  readonly own: string;
  /** What callers may load from. */
  readonly readable: readonly string[];
}

export async function openWorkDirectory(
  dataDirectory: string,
  spoolDirectory: string,
  readable: readonly string[],
): Promise<FileAccess> {
  const all = join(spoolDirectory, 'spill');
  await mkdir(all, { recursive: true, mode: 0o700 });
  const own = join(all, `${process.pid}-${randomBytes(16).toString('hex')}`);
  await mkdir(own, { mode: 0o700 });
  return { dataDirectory, own, readable };
}

/** Of processes that ended. */
export async function removeLeftovers({ own }: FileAccess): Promise<void> {
  const all = dirname(own);
  for (const name of await readdir(all)) {
    if (!isAlive(Number.parseInt(name, 10))) await rm(join(all, name), { recursive: true, force: true });
  }
}

/** Where the engine puts what does not fit its memory. */
export function spillDirectory({ own }: FileAccess): string {
  return join(own, 'spill');
}

/** What is there now. The engine makes the directory when it first spills, and its files come and go. */
export async function spilledBytes(reach: FileAccess): Promise<number> {
  const directory = spillDirectory(reach);
  const names = await readdir(directory).catch(() => []);
  const sizes = await Promise.all(names.map((name) => stat(join(directory, name)).catch(() => undefined)));
  return sizes.reduce((sum, found) => sum + (found?.size ?? 0), 0);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
