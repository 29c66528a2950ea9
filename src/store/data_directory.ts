// What a start requires of the data directory: it can be written, and it has its metadata store where it has catalogs. What is wrong
// is said in a sentence with what to do.
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storeFileName } from './store.ts';

const probeBytes = 4096;
const catalogsDirectoryName = 'catalogs';

/** The message is for who starts the server. */
export class DataDirectoryError extends Error {
  override name = 'DataDirectoryError';
}

/** Creates the directory where there is none. Throws DataDirectoryError. */
export async function prepareDataDirectory(directory: string): Promise<void> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeProbe(join(directory, `.probe-${process.pid}`));
  } catch (error) {
    throw new DataDirectoryError(describeUnwritable(directory, (error as NodeJS.ErrnoException).code), {
      cause: error,
    });
  }
  await requireStore(directory);
}

/** A store that is created beside catalogs would know nothing of them, nor of users and grants. */
async function requireStore(directory: string): Promise<void> {
  const store = join(directory, storeFileName);
  if (existsSync(store)) return;
  const found = await readdir(join(directory, catalogsDirectoryName)).catch(() => []);
  const catalogs = found.filter((name) => !name.endsWith('.wal')).length;
  const hasLog = existsSync(`${store}-wal`);
  if (catalogs === 0 && !hasLog) return;
  const what =
    catalogs === 0 ? 'the log of a metadata store' : `${catalogs} ${catalogs === 1 ? 'catalog' : 'catalogs'}`;
  throw new DataDirectoryError(
    `${directory} holds ${what} but no metadata store (${storeFileName}), and a new one is not created in its place.\n` +
      `Put ${storeFileName}, ${storeFileName}-wal and ${storeFileName}-sums back. Where they are lost, start a server with another, empty --data-dir and restore ` +
      'each catalog from its newest backup: `tabularium backup verify <place>` lists them, POST /api/v2/catalogs/restore restores one.',
  );
}

async function writeProbe(path: string): Promise<void> {
  const file = await open(path, 'w', 0o600);
  try {
    await file.writeFile(Buffer.alloc(probeBytes));
    await file.sync();
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}

function describeUnwritable(directory: string, code: string | undefined): string {
  const at = `the data directory ${directory}`;
  switch (code) {
    case 'EROFS':
      return `${at} is on a file system that is mounted read-only: mount it writable, or name another with --data-dir`;
    case 'EACCES':
    case 'EPERM':
      return `${at} cannot be written by this user: change its owner or its mode, or name another with --data-dir`;
    case 'ENOSPC':
    case 'EDQUOT':
      return `there is no space left for ${at}: free some, then start the server again`;
    case 'EEXIST':
    case 'ENOTDIR':
      return `${at} is not a directory: name another with --data-dir`;
    default:
      return `${at} cannot be used (${code ?? 'unknown error'}): check the disk, or name another with --data-dir`;
  }
}
