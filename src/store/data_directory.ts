// Checks the data directory at start: it is writable, and if it contains catalogs it contains the metadata store. Each error says what
// to do.

import { existsSync } from 'node:fs';
import { open, readdir, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { createOperatorDirectory } from '../operator/operator_directory.ts';
import { OperatorError } from '../operator/operator_error.ts';
import { requireDirectories, requireRegularFiles } from '../operator/operator_file.ts';
import { storeFileName } from './sqlite/sqlite_store.ts';

const probeBytes = 4096;
const catalogsDirectoryName = 'catalogs';
/** Exists if the server uses a store that several servers share. See server_identity.ts. */
export const serverIdFileName = 'server.id';

/** The message addresses the operator. */
export class DataDirectoryError extends OperatorError {
  override readonly name: string = 'DataDirectoryError';
}

/** What else the server keeps in the directory: paths, relative to it, of files and of directories. */
export interface DataDirectoryEntries {
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

/** Creates the directory if it does not exist. `hasStore`: the metadata store is in it. Throws OperatorError. */
export async function prepareDataDirectory(
  directory: string,
  entries: DataDirectoryEntries,
  { hasStore }: { readonly hasStore: boolean },
): Promise<void> {
  await createDataDirectory(directory);
  requireRegularFiles(entries.files.map((path) => resolve(directory, path)));
  requireDirectories([...entries.directories, catalogsDirectoryName].map((path) => resolve(directory, path)));
  if (hasStore) await requireStore(directory);
}

/** Creates the directory if it does not exist, and checks that it is writable. Throws DataDirectoryError. */
export async function createDataDirectory(directory: string): Promise<void> {
  try {
    await createOperatorDirectory(directory);
    await writeProbe(join(directory, `.probe-${process.pid}`));
  } catch (error) {
    throw new DataDirectoryError(describeUnwritable(directory, (error as NodeJS.ErrnoException).code), {
      cause: error,
    });
  }
}

/** A new store beside existing catalogs would contain neither these catalogs nor users and grants. */
async function requireStore(directory: string): Promise<void> {
  const store = join(directory, storeFileName);
  if (existsSync(store)) return;
  if (existsSync(join(directory, serverIdFileName)))
    throw new DataDirectoryError(
      `${directory} was used by a server whose metadata store is PostgreSQL: select it with the setting store, or choose another --data-dir`,
    );
  const found = await readdir(join(directory, catalogsDirectoryName)).catch(() => []);
  const catalogs = found.filter((name) => !name.endsWith('.wal')).length;
  const hasLog = existsSync(`${store}-wal`);
  if (catalogs === 0 && !hasLog) return;
  const what =
    catalogs === 0 ? 'the log of a metadata store' : `${catalogs} ${catalogs === 1 ? 'catalog' : 'catalogs'}`;
  throw new DataDirectoryError(
    `${directory} contains ${what} but no metadata store (${storeFileName}), and a new one is not created in its place.\n` +
      `Put ${storeFileName}, ${storeFileName}-wal and ${storeFileName}-sums back. If they are lost, start a server with another, empty --data-dir and restore ` +
      'each catalog from its newest backup: `tabularium backup verify <target>` lists them, POST /api/v2/catalogs/restore restores one.',
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
  const subject = `the data directory ${directory}`;
  switch (code) {
    case 'EROFS':
      return `${subject} is on a file system that is mounted read-only: mount it writable, or choose another with --data-dir`;
    case 'EACCES':
    case 'EPERM':
      return `${subject} is not writable for this user: change its owner or its mode, or choose another with --data-dir`;
    case 'ENOSPC':
    case 'EDQUOT':
      return `there is no disk space left for ${subject}: free some, then restart the server`;
    case 'ENOENT':
      return `${subject} cannot be created there: choose another with --data-dir`;
    case 'EEXIST':
    case 'ENOTDIR':
      return `${subject} is not a directory: choose another with --data-dir`;
    default:
      return `${subject} cannot be used (${code ?? 'unknown error'}): check the disk, or choose another with --data-dir`;
  }
}
