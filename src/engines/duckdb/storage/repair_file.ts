// Repair of the damaged files of a catalog while no server has them open. The originals are retained under another name.
import { constants, existsSync } from 'node:fs';
import { copyFile, type FileHandle, open, rename, stat } from 'node:fs/promises';
import type { ExpectedTable } from '../../../model/expected_table.ts';
import { syncPath } from '../../../store/sync_path.ts';
import type { FilePosition } from '../../port/catalog_storage.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteLiteral } from '../sql/identifiers.ts';
import { catalogFile, catalogsDirectory } from './catalog_files.ts';
import { committedLogBytes, duckdbStorage, logFile } from './file_position.ts';
import { withOfflineConnection } from './offline_connection.ts';

export interface LogCut {
  readonly keptBytes: number;
  readonly lostBytes: number;
}

/**
 * The position at which to truncate the log: after the last transaction before its damage. Undefined if there is no log, or it is
 * intact.
 */
export async function damagedLog(dataDirectory: string, catalog: CatalogRef): Promise<LogCut | undefined> {
  const log = logFile(dataDirectory, catalog.id);
  const bytes = await stat(log).then(
    ({ size }) => size,
    () => 0,
  );
  if (bytes === 0) return undefined;
  const until = await damagedByte(catalogFile(dataDirectory, catalog));
  const keptBytes = await committedLogBytes(log, { until, includesCheckpoint: true });
  return keptBytes !== undefined && keptBytes < bytes ? { keptBytes, lostBytes: bytes - keptBytes } : undefined;
}

/** @returns the names of the files with the originals. */
export async function cutLog(
  dataDirectory: string,
  catalog: CatalogRef,
  { keptBytes }: LogCut,
  suffix: string,
): Promise<string[]> {
  const log = logFile(dataDirectory, catalog.id);
  const file = catalogFile(dataDirectory, catalog);
  // Opening the file writes the rest of the log into it, so both are copied.
  for (const path of [log, file]) {
    await copyFile(path, path + suffix, constants.COPYFILE_FICLONE);
    await syncFile(path + suffix);
  }
  // The copies must be durable first: otherwise a power failure after the truncation would lose what was cut.
  await syncPath(catalogsDirectory(dataDirectory));
  await syncFile(log, (handle) => handle.truncate(keptBytes));
  return [log + suffix, file + suffix];
}

/** Applies `change` to the file, then flushes it to disk. */
async function syncFile(path: string, change?: (handle: FileHandle) => Promise<void>): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    await change?.(handle);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Renames the files of a catalog, so that no server attaches them. @returns their new names. */
export async function setFilesAside(dataDirectory: string, catalog: CatalogRef, suffix: string): Promise<string[]> {
  const paths = [catalogFile(dataDirectory, catalog), logFile(dataDirectory, catalog.id)].filter(existsSync);
  for (const path of paths) await rename(path, path + suffix);
  return paths.map((path) => path + suffix);
}

interface CatalogFiles {
  readonly dataDirectory: string;
  readonly id: string;
}

/** Moves the files of a catalog, also to another id. @returns their position. */
export async function moveFiles(from: CatalogFiles, to: CatalogFiles): Promise<FilePosition> {
  const filesOf = ({ dataDirectory, id }: CatalogFiles) => [
    catalogFile(dataDirectory, { id }),
    logFile(dataDirectory, id),
  ];
  const [sources, targets] = [filesOf(from), filesOf(to)];
  // The log first: without its file it is not attached.
  for (const i of [1, 0])
    if (existsSync(sources[i] as string)) await rename(sources[i] as string, targets[i] as string);
  await syncPath(catalogsDirectory(to.dataDirectory));
  return duckdbStorage.position(to.dataDirectory, to.id);
}

/** Row counts by `database.table`, of a file that no server has open. */
export async function rowCounts(
  dataDirectory: string,
  catalog: CatalogRef,
  tables: readonly Omit<ExpectedTable, 'columns'>[],
): Promise<ReadonlyMap<string, number>> {
  return withOfflineConnection(async (connection) => {
    await connection.run(`ATTACH ${quoteLiteral(catalogFile(dataDirectory, catalog))} AS counted (READ_ONLY)`);
    const counts = new Map<string, number>();
    for (const { database, table } of tables) {
      const name = qualifiedTable({ catalog: { id: '', name: 'counted' }, database, table });
      const [row] = await rowsOf(connection, `SELECT count(*) FROM ${name}`);
      counts.set(`${database}.${table}`, Number(row?.[0]));
    }
    return counts;
  });
}

/** The byte at which the engine finds the log damaged; undefined if it can replay it. Attached read-only, which changes nothing. */
async function damagedByte(file: string): Promise<number | undefined> {
  return withOfflineConnection(async (connection) => {
    try {
      await connection.run(`ATTACH ${quoteLiteral(file)} AS checked (READ_ONLY)`);
      return undefined;
    } catch (error) {
      const found = /Corrupt WAL file: entry at byte position (\d+)/.exec((error as Error).message);
      return found ? Number(found[1]) : undefined;
    }
  });
}
