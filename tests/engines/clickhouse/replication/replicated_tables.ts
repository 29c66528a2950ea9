// Replicated tables for tests of the replication layer: the definitions that a statement of the adapter creates on each server, in the words
// that servers of 2018 understand.
import { randomUUID } from 'node:crypto';
import type { ClickHouseServer } from '../../../../src/engines/clickhouse/connection/server.ts';
import type { OwnsDatabase } from '../../../../src/engines/clickhouse/owned_databases.ts';
import type { ReplicatedBatch } from '../../../../src/engines/clickhouse/replication/replicated_inserts.ts';
import {
  type ReplicatedTable,
  replicatedEngine,
} from '../../../../src/engines/clickhouse/replication/replicated_tables.ts';
import { deadlineMs, eventually } from '../../../deadline.ts';
import { clusterName } from '../replicated_ring/replicated_ring.ts';

export const database = 'sales__shop';
export const owns: OwnsDatabase = ({ name }) => name.includes('__');
export const timeoutMs = deadlineMs(10_000);
export const tokenColumn = 'batch';

export const newTable = (name: string): ReplicatedTable => ({
  uuid: randomUUID(),
  database,
  localTable: `${name}__local`,
});

/** Both tables of a table: with the rows of one server, and of all. */
export async function createTable(servers: readonly ClickHouseServer[], table: ReplicatedTable): Promise<void> {
  const { localTable } = table;
  const name = localTable.replace('__local', '');
  const columns = `(id Int64, ${tokenColumn} String)`;
  const distributed = `Distributed('${clusterName}', '${table.database}', '${localTable}', rand())`;
  await onEach(servers, `CREATE DATABASE IF NOT EXISTS ${table.database}`);
  await onEach(
    servers,
    `CREATE TABLE IF NOT EXISTS ${table.database}.${localTable} ${columns} ENGINE = ${replicatedEngine(table.uuid)} ORDER BY id`,
  );
  await onEach(servers, `CREATE TABLE IF NOT EXISTS ${table.database}.${name} ${columns} ENGINE = ${distributed}`);
}

/** On one after the other; Keeper may just have returned. */
export async function onEach(servers: readonly ClickHouseServer[], sql: string): Promise<void> {
  for (const server of servers) {
    let last: unknown;
    const succeeds = () =>
      server.text({ sql, timeoutMs }).then(
        () => true,
        (error) => {
          last = error;
          return false;
        },
      );
    await eventually(sql, succeeds, 30_000).catch((error) => {
      throw new Error(String(last), { cause: error });
    });
  }
}

/** A batch of rows with the same token in each. */
export function batchOf(table: ReplicatedTable, token: string, ids: readonly number[]): ReplicatedBatch {
  return {
    names: { database: table.database, table: table.localTable, localTable: table.localTable },
    columns: ['id', tokenColumn],
    format: 'TabSeparated',
    data: ids.map((id) => `${id}\t${token}\n`).join(''),
    rowCount: ids.length,
    token,
    batchColumn: tokenColumn,
  };
}

/** How often each row is on a server, by `token id`. */
export async function rowsOn(server: ClickHouseServer, table: ReplicatedTable): Promise<Map<string, number>> {
  const sql = `SELECT ${tokenColumn} AS token, id, toUInt32(count()) AS times FROM ${table.database}.${table.localTable} GROUP BY token, id`;
  const rows = await server.rows<{ token: string; id: string; times: number }>({ sql, timeoutMs });
  return new Map(rows.map(({ token, id, times }) => [`${token} ${id}`, times]));
}
