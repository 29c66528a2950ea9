// The databases, tables and views of this product on a server, and on what the servers that count agree.
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import {
  databaseTaken,
  isSameDatabase,
  type OwnsDatabase,
  readDatabases,
  type StoredDatabase,
} from '../owned_databases.ts';
import { quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { tableOfPath } from './replicated_tables.ts';

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
  readonly databases: readonly StoredDatabase[];
  readonly objects: readonly StoredObject[];
}

export interface WholeSchema extends ServerSchema {
  /** What is not owned. */
  readonly others: Pick<ServerSchema, 'databases' | 'objects'>;
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

/** What is owned. Throws what the server answers. */
export async function readSchema(
  server: ClickHouseServer,
  owns: OwnsDatabase,
  timeoutMs: number,
): Promise<ServerSchema> {
  const { others: _, ...schema } = await readWholeSchema(server, owns, timeoutMs);
  return schema;
}

/** Throws what the server answers. */
export async function readWholeSchema(
  server: ClickHouseServer,
  owns: OwnsDatabase,
  timeoutMs: number,
): Promise<WholeSchema> {
  const [databases, tables, paths] = await Promise.all([
    readDatabases(server, { timeoutMs }),
    server.rows<TableRow>({ sql: 'SELECT database, name, engine, create_table_query FROM system.tables', timeoutMs }),
    server.rows<PathRow>({ sql: 'SELECT database, table, zookeeper_path FROM system.replicas', timeoutMs }),
  ]);
  const pathOf = new Map(paths.map((row) => [`${row.database} ${row.table}`, row.zookeeper_path]));
  const objects = tables.map(({ database, name, engine, create_table_query: createSql }): StoredObject => {
    const path = pathOf.get(`${database} ${name}`);
    return { database, name, engine, createSql, path, uuid: path && tableOfPath(path)?.uuid };
  });
  const within = (part: readonly StoredDatabase[]) => {
    const names = new Set(part.map(({ name }) => name));
    return { databases: part, objects: objects.filter(({ database }) => names.has(database)) };
  };
  const others = within(databases.filter((database) => !owns(database)));
  return { version: server.version, ...within(databases.filter(owns)), others };
}

/**
 * Creates a database as peers have it: its comment names the catalog that it belongs to. If the server has one of another catalog or of nobody under
 * this name, throws CHANGE_IN_PROGRESS: what is created in it later would be theirs.
 */
export async function createDatabaseAs(
  server: ClickHouseServer,
  { name, comment }: StoredDatabase,
  call: Pick<ServerCall, 'timeoutMs' | 'signal' | 'settings'>,
): Promise<void> {
  const asComment = comment === '' ? '' : ` ENGINE = Atomic COMMENT ${quoteLiteral(comment)}`;
  await server.text({ ...call, sql: `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(name)}${asComment}` });
  const created = (await readDatabases(server, call)).find((each) => each.name === name);
  if (created && created.comment !== comment) throw databaseTaken(created);
}

/** By which an object is the same on all servers. */
export const keyOf = ({ uuid, database, name }: StoredObject): string =>
  uuid === undefined ? `${database} ${name}` : uuid;

export interface AgreedSchema {
  /** All servers have them. */
  readonly databases: readonly StoredDatabase[];
  /** A server has them, others may not. */
  readonly databasesOfAny: readonly StoredDatabase[];
  /** All servers have them under the same name, by key. */
  readonly objects: ReadonlyMap<string, StoredObject>;
  /** Objects that some servers have and others have not, or under another name: a change of them is under way. */
  readonly undecided: ReadonlySet<string>;
}

/** @param schemas of at least one server. */
export function agreedSchema(schemas: readonly ServerSchema[]): AgreedSchema {
  const databasesOfAny = schemas.flatMap(({ databases }) => databases);
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
  const isOnAll = (one: StoredDatabase) =>
    schemas.every(({ databases }) => databases.some((each) => isSameDatabase(each, one)));
  const databases = schemas[0]?.databases.filter(isOnAll) ?? [];
  return { databases, databasesOfAny, objects, undecided };
}
