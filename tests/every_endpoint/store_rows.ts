// All rows of the metadata store of a server in this process, as they would be after a kill at this moment.
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import type { TestServer } from '../server.ts';
import { storeLocations } from './worlds.ts';

/** Each as the name of its table and its values; without the rows of the given tables. */
export async function storeRows(server: TestServer, without: ReadonlySet<string>): Promise<string[]> {
  const location = storeLocations.get(server);
  if (location === undefined) return rowsOfFile(join(server.dataDirectory, 'metadata.sqlite'), without);
  const { host, port, user, database } = location;
  const client = new Client({ host, port, user, database });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select table_name as name from information_schema.tables where table_schema = 'public'`,
    );
    await client.query('begin isolation level repeatable read');
    const all: string[] = [];
    for (const { name } of tables.filter((table) => !without.has(table.name)))
      all.push(...asTexts(name, (await client.query(`select * from "${name}"`)).rows));
    return all.sort();
  } finally {
    await client.end();
  }
}

const asTexts = (table: string, rows: readonly unknown[]) => rows.map((row) => `${table} ${JSON.stringify(row)}`);

function rowsOfFile(file: string, without: ReadonlySet<string>): string[] {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-rows-'));
  const copy = join(directory, 'copy.sqlite');
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end);
  const store = new DatabaseSync(copy);
  try {
    const tables = store.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
    return tables
      .filter(({ name }) => !without.has(name))
      .flatMap(({ name }) => asTexts(name, store.prepare(`select * from "${name}"`).all()))
      .sort();
  } finally {
    store.close();
    rmSync(directory, { recursive: true, force: true });
  }
}
