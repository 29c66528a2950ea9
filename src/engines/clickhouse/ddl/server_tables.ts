// Databases and tables of one server: what it has, and steps of changes of them that do nothing when they are repeated.

import { Failure } from '../../../standard/failure.ts';
import { analysisSettings } from '../analysis/tree_cache.ts';
import type { ClickHouseServer, ServerCall } from '../connection/server.ts';
import { databaseComment, databaseTaken, readDatabases, type StoredDatabase } from '../owned_databases.ts';
import type { BoundColumn } from '../query/bound_statement.ts';
import { qualifiedName, quoteIdentifier, quoteLiteral } from '../sql/identifiers.ts';
import { createDistributedSql, parseDistributed } from './table_sql.ts';

export interface ServerTable {
  readonly name: string;
  readonly engine: string;
  readonly engineFull: string;
}

/** With what says which change has created it. */
export interface MarkedTable {
  readonly uuid: string;
  readonly engineFull: string;
  readonly comment: string;
  readonly hasRows: boolean;
}

export interface ServerColumn {
  readonly name: string;
  readonly type: string;
  readonly defaultKind: string;
}

/** How long a statement may take that changes definitions only. */
const ddlTimeoutMs = 120_000;

/** For the texts of views, which may be as long as those of statements. */
const viewSettings = {
  max_query_size: analysisSettings.max_query_size,
  max_parser_depth: analysisSettings.max_parser_depth,
  max_parser_backtracks: analysisSettings.max_parser_backtracks,
  max_ast_depth: analysisSettings.max_ast_depth,
  max_ast_elements: analysisSettings.max_ast_elements,
};

/** A table may be dropped whatever its size: the catalog has decided it. */
const settings = { max_table_size_to_drop: 0, max_partition_size_to_drop: 0 };

/** A server on which definitions are changed. */
export class ServerTables {
  readonly #server: ClickHouseServer;
  readonly #signal: AbortSignal;

  constructor(server: ClickHouseServer, signal: AbortSignal) {
    this.#server = server;
    this.#signal = signal;
  }

  async run(
    sql: string,
    options: Partial<Pick<ServerCall, 'timeoutMs' | 'isOfCaller' | 'settings'>> = {},
  ): Promise<void> {
    const { timeoutMs = ddlTimeoutMs, isOfCaller } = options;
    const all = { ...settings, ...options.settings };
    await this.#server.text({ sql, timeoutMs, isOfCaller, settings: all, signal: this.#signal });
  }

  async rows<Row extends object>(sql: string, parameters: Readonly<Record<string, string>> = {}): Promise<Row[]> {
    return this.#server.rows<Row>({ sql, parameters, timeoutMs: ddlTimeoutMs, signal: this.#signal });
  }

  databases = (): Promise<StoredDatabase[]> =>
    readDatabases(this.#server, { timeoutMs: ddlTimeoutMs, signal: this.#signal });

  /** The names of the databases of a catalog. `prefix`: of the names. */
  async databasesOf(catalogId: string, prefix = ''): Promise<readonly string[]> {
    const comment = databaseComment(catalogId);
    const all = await this.databases();
    return all.filter((each) => each.comment === comment && each.name.startsWith(prefix)).map(({ name }) => name);
  }

  /** Throws CHANGE_IN_PROGRESS if it is not there, or not of this catalog. */
  async requireDatabaseOf(catalogId: string, name: string): Promise<void> {
    const found = (await this.databases()).find((each) => each.name === name);
    if (!found) throw new Failure('CHANGE_IN_PROGRESS', 'the database is being changed; retry later');
    if (found.comment !== databaseComment(catalogId)) throw databaseTaken(found);
  }

  /**
   * Whether the database, in which one of these tables is to be dropped or hidden, is of this catalog. Throws CHANGE_IN_PROGRESS if it is not, has one
   * of them and no comment, as earlier builds have created it: the table would stay.
   */
  async hasTablesOf(catalogId: string, database: string, tables: readonly string[]): Promise<boolean> {
    const found = (await this.databases()).find((each) => each.name === database);
    if (found?.comment === '')
      for (const table of tables) if (await this.hasTable(database, table)) throw databaseTaken(found);
    return found?.comment === databaseComment(catalogId);
  }

  async tables(database: string): Promise<readonly ServerTable[]> {
    const sql =
      'SELECT name, engine, engine_full AS engineFull FROM system.tables WHERE database = {database:String} ORDER BY name';
    return this.rows<ServerTable>(sql, { database: escaped(database) });
  }

  async hasTable(database: string, table: string): Promise<boolean> {
    const sql = 'SELECT 1 FROM system.tables WHERE database = {database:String} AND name = {table:String}';
    return (await this.rows(sql, { database: escaped(database), table: escaped(table) })).length > 0;
  }

  commentTable = ({ database, table }: TablePlace, comment: string): Promise<void> =>
    this.run(`ALTER TABLE ${qualifiedName({ database, table })} MODIFY COMMENT ${quoteLiteral(comment)}`);

  async markedTable({ database, table }: TablePlace): Promise<MarkedTable | undefined> {
    const sql = `SELECT toString(uuid) AS uuid, engine_full AS engineFull, comment, ifNull(total_rows, 1) > 0 AS hasRows FROM system.tables
      WHERE database = {database:String} AND name = {table:String}`;
    const [found] = await this.rows<Omit<MarkedTable, 'hasRows'> & { hasRows: number }>(sql, {
      database: escaped(database),
      table: escaped(table),
    });
    return found && { ...found, hasRows: found.hasRows === 1 };
  }

  async columns(database: string, table: string): Promise<readonly ServerColumn[]> {
    const sql = `SELECT name, type, default_kind AS defaultKind FROM system.columns
      WHERE database = {database:String} AND table = {table:String} AND default_kind != 'MATERIALIZED' ORDER BY position`;
    return this.rows<ServerColumn>(sql, { database: escaped(database), table: escaped(table) });
  }

  createDatabase = (name: string): Promise<void> =>
    this.run(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(name)} ENGINE = Atomic`);

  /** Throws CHANGE_IN_PROGRESS if it is there and not of this catalog. */
  async createDatabaseOf(catalogId: string, name: string): Promise<void> {
    const comment = databaseComment(catalogId);
    await this.run(
      `CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(name)} ENGINE = Atomic COMMENT ${quoteLiteral(comment)}`,
    );
    const found = (await this.databases()).find((each) => each.name === name);
    if (found && found.comment !== comment) throw databaseTaken(found);
  }

  /** Does nothing if it is not of this catalog. */
  async dropDatabaseOf(catalogId: string, name: string): Promise<void> {
    if ((await this.databasesOf(catalogId)).includes(name)) await this.dropDatabase(name);
  }

  dropDatabase = (name: string): Promise<void> => this.run(`DROP DATABASE IF EXISTS ${quoteIdentifier(name)} SYNC`);

  dropTable = (database: string, table: string): Promise<void> =>
    this.run(`DROP TABLE IF EXISTS ${qualifiedName({ database, table })} SYNC`);

  /** Does nothing if only the new one exists. */
  async renameTable(from: TablePlace, to: TablePlace): Promise<void> {
    if (await this.hasTable(from.database, from.table))
      await this.run(`RENAME TABLE ${qualifiedName(from)} TO ${qualifiedName(to)}`);
  }

  renameDatabase = (from: string, to: string): Promise<void> =>
    this.run(`RENAME DATABASE ${quoteIdentifier(from)} TO ${quoteIdentifier(to)}`);

  /** Replaces it if it exists. `text`: a query with full names. */
  createView = (place: TablePlace, text: string): Promise<void> =>
    this.run(`CREATE OR REPLACE VIEW ${qualifiedName(place)} AS\n${text}`, { settings: viewSettings });

  /** The query of a view in the words of the server; undefined if there is no such view. */
  async viewText({ database, table }: TablePlace): Promise<string | undefined> {
    const sql = `SELECT as_select AS text FROM system.tables
      WHERE database = {database:String} AND name = {table:String} AND engine = 'View'`;
    const [row] = await this.rows<{ text: string }>(sql, { database: escaped(database), table: escaped(table) });
    return row?.text;
  }

  async dropViews(database: string): Promise<void> {
    for (const { name, engine } of await this.tables(database))
      if (engine === 'View') await this.dropTable(database, name);
  }

  /** Binds the query and runs its scalar subqueries. */
  columnsOfQuery = (query: string): Promise<BoundColumn[]> =>
    this.#server.rows<BoundColumn>({
      sql: `DESCRIBE (\n${query}\n)`,
      settings: { ...viewSettings, describe_compact_output: 1 },
      timeoutMs: ddlTimeoutMs,
      isOfCaller: true,
      signal: this.#signal,
    });

  /** That of a Distributed table; undefined if there is none. */
  async shardingKey({ database, table }: TablePlace): Promise<string | undefined> {
    const sql =
      'SELECT engine_full AS engine FROM system.tables WHERE database = {database:String} AND name = {table:String}';
    const [row] = await this.rows<{ engine: string }>(sql, { database: escaped(database), table: escaped(table) });
    return row && parseDistributed(row.engine)?.key;
  }

  /** Lets the Distributed tables of a database read from it: they name the one that it was. */
  async redistribute(cluster: string, database: string, localOf: (table: string) => string): Promise<void> {
    for (const { name, engineFull } of await this.tables(database)) {
      const parsed = parseDistributed(engineFull);
      if (!parsed || parsed.database === quoteLiteral(database)) continue;
      await this.run(createDistributedSql(cluster, { database, table: name, localTable: localOf(name) }, parsed.key));
    }
  }
}

export interface TablePlace {
  readonly database: string;
  readonly table: string;
}

/** A parameter of the type String, in the text format of servers. */
const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n');
