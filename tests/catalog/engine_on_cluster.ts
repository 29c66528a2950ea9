// The ClickHouse engine on a cluster of this machine, in the place of the engine in memory: the same faults, and contents as the servers have them.
import assert from 'node:assert/strict';
import { parsedDatabase, parsedTable } from '../../src/engines/clickhouse/names.ts';
import type { EngineWarehouse } from '../../src/engines/port/engine.ts';
import type { RingNode } from '../engines/clickhouse/ring/ring.ts';
import { definition } from './catalog_and_engine.ts';
import { EngineOfWarehouse } from './engine_of_warehouse.ts';

const stored = "startsWith(database, 'c__') OR startsWith(database, 'C__')";

interface StoredColumn {
  readonly database: string;
  readonly table: string;
  readonly name: string;
}

export class EngineOnCluster extends EngineOfWarehouse {
  readonly #nodes: readonly Pick<RingNode, 'url'>[];

  constructor(warehouse: Pick<EngineWarehouse, 'apply' | 'forget'>, nodes: readonly Pick<RingNode, 'url'>[]) {
    super(warehouse);
    this.#nodes = nodes;
  }

  /** The same on each server. */
  override async contentsNow(): Promise<string[]> {
    const [first, ...others] = await Promise.all(this.#nodes.map(({ url }) => contentsOf(url)));
    assert.ok(first);
    for (const other of others) assert.deepEqual(other, first, 'the servers agree');
    return first;
  }
}

async function rowsOf<T>(url: string, sql: string): Promise<readonly T[]> {
  const response = await fetch(url, { method: 'POST', body: `${sql} FORMAT JSONEachRow` });
  const text = await response.text();
  assert.ok(response.ok, text);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}

async function contentsOf(url: string): Promise<string[]> {
  const databases = await rowsOf<{ readonly name: string }>(
    url,
    `SELECT name FROM system.databases WHERE ${stored.replaceAll('database', 'name')}`,
  );
  const columns = await rowsOf<StoredColumn>(
    url,
    `SELECT c.database AS database, c.table AS table, c.name AS name FROM system.columns AS c
     JOIN system.tables AS t ON t.database = c.database AND t.name = c.table
     WHERE t.engine = 'Distributed' AND c.default_kind != 'MATERIALIZED' AND (${stored.replaceAll('database', 'c.database')}) ORDER BY c.database, c.table, c.position`,
  );
  const tables = new Map<string, string[]>();
  for (const { database, table, name } of columns) {
    const key = `${nameOf(database)}.${parsedTable(table)}`;
    tables.set(key, [...(tables.get(key) ?? []), name]);
  }
  return [
    'c',
    ...databases.map(({ name }) => nameOf(name)),
    ...[...tables].map(([table, names]) => `${table}=${JSON.stringify(definition(...names))}`),
  ].sort();
}

function nameOf(database: string): string {
  const parsed = parsedDatabase(database);
  assert.ok(parsed, database);
  return `${parsed.catalog}.${parsed.database}`;
}

/** Drops what earlier histories left there. */
export async function emptyNodes(nodes: readonly Pick<RingNode, 'url'>[]): Promise<void> {
  for (const { url } of nodes) {
    const databases = await rowsOf<{ readonly name: string }>(
      url,
      `SELECT name FROM system.databases WHERE ${stored.replaceAll('database', 'name')}`,
    );
    for (const { name } of databases) {
      const response = await fetch(url, { method: 'POST', body: `DROP DATABASE \`${name}\` SYNC` });
      assert.ok(response.ok, await response.text());
    }
  }
}
