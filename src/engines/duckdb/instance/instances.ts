// The two DuckDB instances of an engine process, closed off before a text of a stranger reaches them: no file but their own, no
// network, no extension, no secret store, and no setting that could open one of these again.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { WarehouseSpec } from '../../../model/records.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { catalogsDirectory } from '../storage/catalog_files.ts';
import { type FileAccess, spillDirectory } from './work_directory.ts';

const closed = {
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  allow_persistent_secrets: 'false',
};
const scratchMemoryBytesMax = 1024 ** 3;

const kibibytes = (bytes: number) => `${Math.floor(bytes / 1024)}KiB`;

/** The one that holds the catalogs. It is unrestricted until `closeData`. */
export function openData(spec: WarehouseSpec): Promise<DuckDBInstance> {
  const threads = String(spec.threads);
  return DuckDBInstance.create(':memory:', { ...closed, threads, memory_limit: kibibytes(spec.memoryLimitBytes) });
}

/** From then on files are opened in the directories of the engine only. */
export function closeData(connection: DuckDBConnection, spec: WarehouseSpec, reach: FileAccess): Promise<void> {
  const directories = [catalogsDirectory(reach.dataDirectory), reach.own, ...reach.readable];
  return set(connection, [
    `temp_directory = ${quoteLiteral(spillDirectory(reach))}`,
    `max_temp_directory_size = '${kibibytes(spec.spillLimitBytes)}'`,
    `TimeZone = 'UTC'`,
    'catalog_error_max_schemas = 0', // no guesses at others' names
    'enable_external_file_cache = false', // a file is read once, and another one may come to have its path
    `allowed_directories = [${directories.map(quoteLiteral).join(', ')}]`,
    'enable_external_access = false',
    'lock_configuration = true',
  ]);
}

/** Where texts are tried that only say what somebody wants: nothing of ours is in it, and no file is in its reach. */
export async function openScratch(spec: WarehouseSpec): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(':memory:', {
    ...closed,
    temp_directory: '',
    threads: '1',
    memory_limit: kibibytes(Math.min(spec.memoryLimitBytes, scratchMemoryBytesMax)),
  });
  const connection = await instance.connect();
  await set(connection, [
    `disabled_filesystems = 'LocalFileSystem'`,
    'enable_external_access = false',
    'lock_configuration = true',
  ]);
  connection.closeSync();
  return instance;
}

async function set(connection: DuckDBConnection, settings: readonly string[]): Promise<void> {
  for (const setting of settings) await connection.run(`SET GLOBAL ${setting}`);
}
