// The work directory of an engine process, for everything but catalogs: results in transit and spilled data. Each process has its
// own directory with an unguessable name, so that no path in a statement can lead there.
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** The directories in which the engine may open files. */
export interface FileAccess {
  /** Only its catalogs directory is accessible. */
  readonly dataDirectory: string;
  /** The work directory of this process alone: two processes that spill into one directory would overwrite each other's files. */
  readonly own: string;
  /** Directories from which callers may load files. */
  readonly readable: readonly string[];
}

export async function openWorkDirectory(
  dataDirectory: string,
  spoolDirectory: string,
  readable: readonly string[],
): Promise<FileAccess> {
  const parent = join(spoolDirectory, 'spill');
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const own = join(parent, `${process.pid}-${randomBytes(16).toString('hex')}`);
  await mkdir(own, { mode: 0o700 });
  return { dataDirectory, own, readable };
}

/** Removes the work directories of processes that have ended. */
export async function removeLeftovers({ own }: FileAccess): Promise<void> {
  const parent = dirname(own);
  for (const name of await readdir(parent)) {
    if (!isAlive(Number.parseInt(name, 10))) await rm(join(parent, name), { recursive: true, force: true });
  }
}

/** The directory for data that does not fit into memory. */
export function spillDirectory({ own }: FileAccess): string {
  return join(own, 'spill');
}

/** The current size of the spilled data. The engine creates the directory when it first spills, and its files come and go. */
export async function spilledBytes(access: FileAccess): Promise<number> {
  const directory = spillDirectory(access);
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
