// The two DuckDB instances of an engine process. They are locked down before any SQL of a caller reaches them: no files but their
// own, no network, no extensions, no secret store, and no setting that could enable one of these again.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { WarehouseSpec } from '../../../model/records.ts';
import { quoteLiteral } from '../sql/identifiers.ts';
import { catalogsDirectory } from '../storage/catalog_files.ts';
import { type FileAccess, spillDirectory } from './work_directory.ts';

/** No extension is installed or loaded, and no stored secret is read. */
export const restrictedSettings = {
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  allow_persistent_secrets: 'false',
};
const scratchMemoryBytesMax = 1024 ** 3;

const kibibytes = (bytes: number) => `${Math.floor(bytes / 1024)}KiB`;

/** Opens the instance for the catalogs. It is unrestricted until `lockData`. */
export function openData(spec: WarehouseSpec): Promise<DuckDBInstance> {
  const threads = String(spec.threads);
  return DuckDBInstance.create(':memory:', {
    ...restrictedSettings,
    threads,
    memory_limit: kibibytes(spec.memoryLimitBytes),
  });
}

/** Locks the instance: afterwards files can be opened only in the directories of the engine. */
export function lockData(connection: DuckDBConnection, spec: WarehouseSpec, fileAccess: FileAccess): Promise<void> {
  const directories = [catalogsDirectory(fileAccess.dataDirectory), fileAccess.own, ...fileAccess.readable];
  return applySettings(connection, [
    `temp_directory = ${quoteLiteral(spillDirectory(fileAccess))}`,
    `max_temp_directory_size = '${kibibytes(spec.spillLimitBytes)}'`,
    `TimeZone = 'UTC'`,
    'catalog_error_max_schemas = 0', // no suggestions of names that the caller may not see
    'enable_external_file_cache = false', // a file is read once, and its path may be reused for another one
    `allowed_directories = [${directories.map(quoteLiteral).join(', ')}]`,
    'enable_external_access = false',
    // Changed while files are copied (snapshot/snapshots.ts), and for each stream (query/streamed_rows.ts).
    `allowed_configs = ['checkpoint_threshold', 'streaming_buffer_size']`,
    'lock_configuration = true',
  ]);
}

/** Opens an instance for parsing and checking texts: it contains no objects of the server and cannot access files. */
export async function openScratch(spec: WarehouseSpec): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(':memory:', {
    ...restrictedSettings,
    temp_directory: '',
    threads: '1',
    memory_limit: kibibytes(Math.min(spec.memoryLimitBytes, scratchMemoryBytesMax)),
  });
  const connection = await instance.connect();
  await applySettings(connection, [
    `disabled_filesystems = 'LocalFileSystem'`,
    'enable_external_access = false',
    'lock_configuration = true',
  ]);
  connection.closeSync();
  return instance;
}

async function applySettings(connection: DuckDBConnection, settings: readonly string[]): Promise<void> {
  for (const setting of settings) await connection.run(`SET GLOBAL ${setting}`);
}
