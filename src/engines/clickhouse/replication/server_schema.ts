// The databases, tables and views of this product on a server, and on what the servers that count agree.
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { tableOfPath } from './replicated_tables.ts';
import { replicationFeatures } from './replication_features.ts';

/** Whether a database belongs to this product; nothing is changed in others. */
export type OwnsDatabase = (database: string) => boolean;

export interface StoredObject {
  readonly database: string;
  readonly name: string;
  readonly engine: string;
  /** The statement that creates it, in the words of the server. */
  readonly createSql: string;
  /** Of a table with rows that are replicated: by this it is known under any name. */
  readonly uuid?: string | undefined;
  /** Of such a table: its path in Keeper. */
  readonly path?: string | undefined;
}

export interface ServerSchema {
  readonly version: string;
  readonly databases: readonly string[];
  readonly objects: readonly StoredObject[];
}

interface TableRow {
  readonly database: string;
  readonly name: string;
  readonly engine: string;
  readonly create_table_query: string;
}

interface PathRow {
  readonly database: string;
  readonly table: string;
  readonly zookeeper_path: string;
}

/** Throws what the server answers. */
export async function readSchema(
  server: ClickHouseServer,
  owns: OwnsDatabase,
  timeoutMs: number,
): Promise<ServerSchema> {
  const [databases, tables, paths] = await Promise.all([
    server.rows<{ name: string }>({ sql: 'SELECT name FROM system.databases', timeoutMs }),
    server.rows<TableRow>({ sql: 'SELECT database, name, engine, create_table_query FROM system.tables', timeoutMs }),
    server.rows<PathRow>({ sql: 'SELECT database, table, zookeeper_path FROM system.replicas', timeoutMs }),
  ]);
  const pathOf = new Map(paths.map((row) => [`${row.database} ${row.table}`, row.zookeeper_path]));
  return {
    version: server.version,
    databases: databases.map(({ name }) => name).filter(owns),
    objects: tables
      .filter(({ database }) => owns(database))
      .map(({ database, name, engine, create_table_query: createSql }) => {
        const path = pathOf.get(`${database} ${name}`);
        return { database, name, engine, createSql, path, uuid: path && tableOfPath(path)?.uuid };
      }),
  };
}

/** Creates a database as a server has it: its comment names the catalog that it belongs to, also under another name. */
export async function createDatabaseSql(
  server: ClickHouseServer,
  name: string,
  call: Pick<ServerCall, 'timeoutMs' | 'signal'>,
): Promise<string> {
  const create = `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(name)}`;
  if (!replicationFeatures(server.version).databaseComments) return create;
  const sql = `SELECT comment FROM system.databases WHERE name = ${quoteLiteral(name)}`;
  const [{ comment = '' } = {}] = await server.rows<{ comment: string }>({ ...call, sql });
  return comment === '' ? create : `${create} ENGINE = Atomic COMMENT ${quoteLiteral(comment)}`;
}

/** By which an object is the same on all servers. */
export const keyOf = ({ uuid, database, name }: StoredObject): string =>
  uuid === undefined ? `${database} ${name}` : uuid;

export interface AgreedSchema {
  /** All servers have them. */
  readonly databases: ReadonlySet<string>;
  /** A server has them, others may not. */
  readonly databasesOfAny: ReadonlySet<string>;
  /** All servers have them under the same name, by key. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** Objects that some servers have and others have not, or under another name: a change of them is under way. */
  readonly undecided: ReadonlySet<string>;
}

/** @param schemas of at least one server. */
export function agreedSchema(schemas: readonly ServerSchema[]): AgreedSchema {
  const databasesOfAny = new Set(schemas.flatMap(({ databases }) => databases));
  const objects = new Map<string, StoredObject>();
  const undecided = new Set<string>();
  const all = Map.groupBy(
    schemas.flatMap((schema) => schema.objects),
    keyOf,
  );
  for (const [key, [first, ...others]] of all) {
    if (!first) continue;
    const isSame = others.every(
      (other) =>
        other.database === first.database &&
        other.name === first.name &&
        // What is replicated changes by itself.
        (first.uuid !== undefined || other.createSql === first.createSql),
    );
    if (isSame && others.length === schemas.length - 1) objects.set(key, first);
    else undecided.add(key);
  }
  const isOnAll = (name: string) => schemas.every(({ databases }) => databases.includes(name));
  return { databases: new Set([...databasesOfAny].filter(isOnAll)), databasesOfAny, objects, undecided };
}
