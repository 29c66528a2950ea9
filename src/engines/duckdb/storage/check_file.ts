// Reads a whole catalog file while no engine has it open: its headers, its log, and every block of its tables.
import { stat } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ExpectedTable } from '../../../model/expected_table.ts';
import { faultOfPosition } from '../../catalog_guard.ts';
import { type CatalogFault, DamagedFile, faultText, type RecordedPosition } from '../../port/catalog_storage.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { ownSchema, rowsOf } from '../instance/applied_steps.ts';
import { qualifiedTable, quoteLiteral } from '../sql/identifiers.ts';
import { damageIn } from './catalog_damage.ts';
import { catalogFile } from './catalog_files.ts';
import { compareTables, readWholeTable } from './check_tables.ts';
import { duckdbStorage } from './file_position.ts';
import { withOfflineConnection } from './offline_connection.ts';

const attachedAs = 'checked';

/** @returns the faults, one sentence each, and the size of the file if it exists. Changes nothing: the file is attached read-only. */
export async function checkCatalogFile(
  dataDirectory: string,
  catalog: CatalogRef,
  recorded: RecordedPosition | undefined,
  expected: readonly ExpectedTable[],
): Promise<{ readonly faults: readonly string[]; readonly bytes: number | undefined }> {
  const file = catalogFile(dataDirectory, catalog);
  const bytes = await stat(file).then(
    ({ size }) => size,
    () => undefined,
  );
  try {
    const position = await duckdbStorage.position(dataDirectory, catalog.id);
    const lag = recorded && faultOfPosition(recorded, position);
    const faults = await withOfflineConnection((connection) =>
      faultsWithin(connection, file, recorded?.identity, expected),
    );
    return { faults: [...(lag === undefined ? [] : [lag]), ...faults.map(faultText)], bytes };
  } catch (error) {
    if (error instanceof DamagedFile) return { faults: [error.message], bytes };
    throw error;
  }
}

/** Attaches the file read-only. `signal`: checked between two tables. */
export async function faultsWithin(
  connection: DuckDBConnection,
  file: string,
  identity: string | undefined,
  expected: readonly ExpectedTable[],
  signal?: AbortSignal,
): Promise<readonly CatalogFault[]> {
  const damagedFile = (reason: string): CatalogFault => ({ kind: 'damaged', reason });
  try {
    await connection.run(`ATTACH ${quoteLiteral(file)} AS ${attachedAs} (READ_ONLY)`);
    const { faults: different, tables } = await compareTables(connection, attachedAs, expected);
    const faults = [...different];
    for (const { database, table } of tables) {
      signal?.throwIfAborted();
      const ref = { catalog: { id: '', name: attachedAs }, database, table };
      try {
        await readWholeTable(connection, ref);
        if (database === ownSchema && table === 'identity' && identity !== undefined) {
          const [row] = await rowsOf(connection, `SELECT id FROM ${qualifiedTable(ref)}`);
          if (row?.[0] !== identity) faults.push(damagedFile('its file is the file of another catalog'));
        }
      } catch (error) {
        faults.push({ kind: 'damaged', database, table, reason: reasonOf(error, file) });
      }
    }
    return faults;
  } catch (error) {
    signal?.throwIfAborted();
    return [damagedFile(reasonOf(error, file))];
  }
}

/** The reason without the paths of files and processes, which callers of the API must not see. */
function reasonOf(error: unknown, file: string): string {
  const [message = ''] = (error as Error).message.split('\n', 1);
  if (/Could not set lock on file/.test(message)) return 'another process has its file open';
  return damageIn(error) ?? `cannot be read (${message.replaceAll(file, 'its file')})`;
}
