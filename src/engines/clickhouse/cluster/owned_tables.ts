// The tables of a warehouse on a server, and their contents.
import type { ClickHouseServer } from '../connection/server.ts';
import { type OwnsDatabase, readDatabases, type StoredDatabase } from '../owned_databases.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { checkSettings } from './server_facts.ts';

export interface OwnedTable {
  readonly database: string;
  readonly name: string;
  readonly engine: string;
  readonly createSql: string;
}

export interface OwnedSchema {
  readonly databases: readonly StoredDatabase[];
  readonly tables: readonly OwnedTable[];
}

export const keyOf = ({ database, name }: Pick<OwnedTable, 'database' | 'name'>): string =>
  JSON.stringify([database, name]);

/** It has rows of its own. */
export const hasRows = ({ engine }: Pick<OwnedTable, 'engine'>): boolean => engine.endsWith('MergeTree');

interface Options {
  readonly owns: OwnsDatabase;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

export async function ownedSchema(server: ClickHouseServer, { owns, ...call }: Options): Promise<OwnedSchema> {
  const common = { ...call, settings: checkSettings };
  const [databases, tables] = await Promise.all([
    readDatabases(server, common),
    server.rows<{ database: string; name: string; engine: string; create_table_query: string }>({
      ...common,
      sql: 'SELECT database, name, engine, create_table_query FROM system.tables',
    }),
  ]);
  const owned = databases.filter(owns);
  const names = new Set(owned.map(({ name }) => name));
  return {
    databases: owned,
    tables: tables
      .filter(({ database }) => names.has(database))
      .map(({ database, name, engine, create_table_query: createSql }) => ({ database, name, engine, createSql })),
  };
}

/** In bytes, as they are read. */
export async function sizeOf(
  server: ClickHouseServer,
  { database, name }: Pick<OwnedTable, 'database' | 'name'>,
  { timeoutMs, signal }: Omit<Options, 'owns'>,
): Promise<number> {
  const sql = `SELECT toString(sum(data_uncompressed_bytes)) AS bytes FROM system.parts
    WHERE active AND database = ${quoteLiteral(database)} AND table = ${quoteLiteral(name)}`;
  const [row] = await server.rows<{ bytes: string | null }>({ sql, timeoutMs, signal, settings: checkSettings });
  return Number(row?.bytes ?? 0);
}

/** Equal for tables with the same rows, in whatever order. Reads the whole table. */
export async function contentOf(
  server: ClickHouseServer,
  { database, name }: Pick<OwnedTable, 'database' | 'name'>,
  { timeoutMs, signal }: Omit<Options, 'owns'>,
): Promise<string> {
  const sql = `SELECT count() AS rows, toString(groupBitXor(sipHash64(formatRow('RowBinary', *)))) AS digest, toString(sum(sipHash64(1, formatRow('RowBinary', *)))) AS total FROM ${quoteIdentifier(database)}.${quoteIdentifier(name)}`;
  const [row] = await server.rows<{ rows: string; digest: string; total: string }>({
    sql,
    timeoutMs,
    signal,
    settings: checkSettings,
  });
  return JSON.stringify(row);
}
