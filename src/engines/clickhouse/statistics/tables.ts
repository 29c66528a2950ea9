// Tables as the servers have them: their size, their comparison with the store, and their compaction.
import { Failure } from '../../../standard/failure.ts';
import type { EngineWarehouse } from '../../port/engine.ts';
import type { CatalogRef, TableRef } from '../../port/refs.ts';
import { requireTable } from '../cluster/missing_tables.ts';
import type { WarehouseContext } from '../context.ts';
import { hiddenDatabase, namesOf } from '../names.ts';
import { isOfCatalogSql } from '../owned_databases.ts';
import { qualifiedName, quoteLiteral } from '../sql/identifiers.ts';
import { settleWrites } from '../steps/left_writes.ts';
import { checksumTable } from './table_checksum.ts';
import { comparedTables, type StoredColumn } from './table_comparison.ts';
import { writeCopy } from './table_copy.ts';

export type TableMethods = Pick<
  EngineWarehouse,
  | 'tableStatistics'
  | 'checksumTable'
  | 'recordedSteps'
  | 'recordSteps'
  | 'settleWrites'
  | 'writeCopy'
  | 'optimize'
  | 'compareTables'
  | 'readWholeTable'
  | 'checkFile'
>;

const callTimeoutMs = 30_000;
/** How long the servers may take to merge all parts of a table, or to read them. */
const wholeTableTimeoutMs = 6 * 3600 * 1000;

export function tablesOf(context: WarehouseContext): TableMethods {
  const compareTables: EngineWarehouse['compareTables'] = (catalog, expected, { signal }) =>
    context.run(signal, async (runSignal) =>
      comparedTables(expected, await storedColumns(context, catalog, runSignal)),
    );
  return {
    tableStatistics: (table) =>
      context.run(undefined, async () => {
        const local = localOf(table);
        const sql = `SELECT toString(sum(rows)) AS rows, toString(sum(bytes_on_disk)) AS bytes FROM system.parts
          WHERE active AND database = ${quoteLiteral(local.database)} AND table = ${quoteLiteral(local.table)}`;
        const shards = await context.cluster.onEachShard(async (server) => {
          const found = await server.rows<{ rows: string; bytes: string }>({ sql, timeoutMs: callTimeoutMs });
          if (found.every(({ rows }) => rows === '0')) await requireTable(server, local);
          return found;
        });
        const sum = (field: 'rows' | 'bytes') => shards.flat().reduce((total, row) => total + Number(row[field]), 0);
        return { rowCount: sum('rows'), dataBytes: sum('bytes') };
      }),
    checksumTable: (table, { signal }) => context.run(signal, (runSignal) => checksumTable(context, table, runSignal)),
    recordedSteps: (page) => context.run(undefined, () => context.steps.applied(page)),
    writeCopy: (table, path, { signal, rowsMax }) =>
      context.run(signal, (runSignal) => writeCopy(context, table, path, { signal: runSignal, rowsMax })),
    settleWrites: (catalog, { signal }) =>
      context.run(signal, (runSignal) => settleWrites(context, catalog, runSignal)),
    recordSteps: ({ catalog, steps }) =>
      context.run(undefined, async () => {
        const found = await context.steps.find(
          catalog,
          steps.map(({ step }) => step),
        );
        const missing = steps.filter(({ step }) => !found.has(step));
        await context.steps.record(
          catalog,
          missing.map(({ step, rowCount }) => ({ step, rowCount, state: 'applied' })),
        );
        return missing.length;
      }),
    optimize: (table, { signal }) =>
      context.run(signal, async (runSignal) => {
        const sql = `OPTIMIZE TABLE ${qualifiedName(localOf(table))} FINAL`;
        await context.cluster.onEach(
          (server) => server.text({ sql, timeoutMs: wholeTableTimeoutMs, isOfCaller: true, signal: runSignal }),
          { withoutDisabled: true },
        );
      }),
    compareTables,
    checkFile: async (catalog, expected, options) => (await compareTables(catalog, expected, options)).faults,
    readWholeTable: (table, { signal }) =>
      context.run(signal, async (runSignal) => {
        const { database, table: name } = localOf(table);
        const found = await context.cluster.onEachShard(async (server) => {
          const [row] = await server.rows({
            sql: `SELECT 1 FROM system.tables WHERE database = ${quoteLiteral(database)} AND name = ${quoteLiteral(name)}`,
            timeoutMs: callTimeoutMs,
            signal: runSignal,
          });
          if (!row) return false;
          const check = `CHECK TABLE ${qualifiedName({ database, table: name })} SETTINGS check_query_single_value_result = 1`;
          const call = { sql: check, timeoutMs: wholeTableTimeoutMs, isOfCaller: true, signal: runSignal };
          const result = await server.text(call);
          if (result.trim() !== '1') throw damaged();
          return true;
        });
        return found.every(Boolean);
      }),
  };
}

const damaged = () =>
  new Failure('CATALOG_DAMAGED', 'a table of the catalog is damaged', {
    reason: 'a server found damaged parts in a table',
  });

function localOf({ catalog, database, table }: TableRef) {
  const { database: stored, localTable } = namesOf({ catalog: catalog.name, database, table });
  return { database: stored, table: localTable };
}

/** The columns of the local tables of a catalog on each server, also of dropped ones. */
async function storedColumns(
  { cluster }: WarehouseContext,
  { id }: CatalogRef,
  signal: AbortSignal,
): Promise<readonly (readonly StoredColumn[])[]> {
  const sql = `SELECT database, table, name, type FROM system.columns
    WHERE (${isOfCatalogSql(id)} OR database = ${quoteLiteral(hiddenDatabase(id))})
      AND default_kind != 'MATERIALIZED' ORDER BY database, table, position`;
  const servers = await cluster.onEach(
    (server) => server.rows<StoredColumn>({ sql, timeoutMs: callTimeoutMs, signal }),
    { withoutDisabled: true },
  );
  return servers;
}
