// What can be done with the damaged files of a catalog while no server has them. The originals stay beside, under another name.
import { constants, existsSync } from 'node:fs';
import { copyFile, type FileHandle, open, rename, stat } from 'node:fs/promises';
import { DuckDBInstance } from '@duckdb/node-api';
import type { ExpectedTable } from '../../../model/expected_table.ts';
import type { FilePosition } from '../../catalog_storage.ts';
import type { CatalogRef } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteLiteral } from '../sql/identifiers.ts';
import { catalogFile, syncCatalogsDirectory } from './catalog_files.ts';
import { committedLogBytes, duckdbStorage, logFile } from './file_position.ts';

export interface LogCut {
  readonly keptBytes: number;
  readonly lostBytes: number;
}

/** Where the log would be cut: after the last transaction before its damage. Undefined: there is no log, or nothing is wrong with it. */
export async function damagedLog(dataDirectory: string, catalog: CatalogRef): Promise<LogCut | undefined> {
  const log = logFile(dataDirectory, catalog.id);
  const bytes = await stat(log).then(
    ({ size }) => size,
    () => 0,
  );
  if (bytes === 0) return undefined;
  const keptBytes = await committedLogBytes(log, { until: await damagedByte(catalogFile(dataDirectory, catalog)) });
  return keptBytes < bytes ? { keptBytes, lostBytes: bytes - keptBytes } : undefined;
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
  // The log that is left is written into the file when it is opened.
  for (const path of [log, file]) {
    await copyFile(path, path + suffix, constants.COPYFILE_FICLONE);
    await synced(path + suffix);
  }
  // Without the copies on the disk, a loss of power after the cut would lose what was cut.
  await syncCatalogsDirectory(dataDirectory);
  await synced(log, (handle) => handle.truncate(keptBytes));
  return [log + suffix, file + suffix];
}

/** The file on the disk, after `change`. */
async function synced(path: string, change?: (handle: FileHandle) => Promise<void>): Promise<void> {
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

/** Moves the files of a catalog from a directory laid out as a data directory. @returns their position. */
export async function putFiles(from: string, dataDirectory: string, catalog: CatalogRef): Promise<FilePosition> {
  const filesIn = (directory: string) => [catalogFile(directory, catalog), logFile(directory, catalog.id)];
  const [sources, targets] = [filesIn(from), filesIn(dataDirectory)];
  // The log first: without its file it is not attached.
  for (const i of [1, 0])
    if (existsSync(sources[i] as string)) await rename(sources[i] as string, targets[i] as string);
  await syncCatalogsDirectory(dataDirectory);
  return duckdbStorage.position(dataDirectory, catalog.id);
}

/** By `database.table`; of a file that no server has. */
export async function rowCounts(
  dataDirectory: string,
  catalog: CatalogRef,
  tables: readonly Omit<ExpectedTable, 'columns'>[],
): Promise<ReadonlyMap<string, number>> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`ATTACH ${quoteLiteral(catalogFile(dataDirectory, catalog))} AS counted (READ_ONLY)`);
    const counts = new Map<string, number>();
    for (const { database, table } of tables) {
      const name = qualifiedTable({ catalog: { id: '', name: 'counted' }, database, table });
      const [row] = await rowsOf(connection, `SELECT count(*) FROM ${name}`);
      counts.set(`${database}.${table}`, Number(row?.[0]));
    }
    return counts;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Where the engine finds the log damaged; undefined: it replays it. Attached read-only, which changes nothing. */
async function damagedByte(file: string): Promise<number | undefined> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`ATTACH ${quoteLiteral(file)} AS checked (READ_ONLY)`);
    return undefined;
  } catch (error) {
    const found = /Corrupt WAL file: entry at byte position (\d+)/.exec((error as Error).message);
    return found ? Number(found[1]) : undefined;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
