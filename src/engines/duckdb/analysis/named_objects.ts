// What the names in a statement's text stand for: the tables and views with their definitions, and the catalogs and schemas that decide
// how a name of two parts is read. Collected by the process that has the files, for the one that binds the statement (object_copies.ts).
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Change, Statement, TableName } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { foldedName, qualifiedTable, quoteIdentifier } from '../sql/identifiers.ts';
import { tokensOf, writingWord } from '../sql/statement_checks.ts';
import { nameList } from '../sql/table_ddl.ts';
import { scanTableNames } from '../sql/table_name_scan.ts';
import type { DefinitionVersions } from './definition_versions.ts';
import { candidatePaths, type ViewUsage } from './view_usage.ts';

export interface NamedSchema {
  readonly catalog: string;
  readonly database: string;
}

export interface NamedTable extends TableName {
  /** Its columns and keys, as CREATE TABLE takes them between brackets. */
  readonly columns: string;
  /** The columns of each unique index, in brackets. Only where the statement writes. */
  readonly uniqueKeys: readonly string[];
}

export interface NamedView extends TableName {
  readonly query: string;
}

export interface NamedObjects {
  /** Which state of the definitions this is. */
  readonly token: string;
  readonly catalogs: readonly string[];
  readonly schemas: readonly NamedSchema[];
  /** Those that views are made of among them. */
  readonly tables: readonly NamedTable[];
  readonly views: readonly NamedView[];
  /** The tables of `tables` that the views are made of. */
  readonly underViews: readonly TableName[];
}

interface CachedTable {
  readonly name: TableName;
  readonly columns: string;
  readonly epoch: number;
}

interface Schemas {
  readonly catalogs: ReadonlyMap<string, string>;
  /** By the folded names of catalog and schema. */
  readonly schemas: ReadonlyMap<string, NamedSchema>;
}

/** How often the names are resolved again because what they name is being changed; the statement counts as changed then. */
const attemptsMax = 5;
const cachedTablesMax = 10_000;

/** Of a state that is being changed: a statement that was bound in it counts as changed. */
export const changingToken = '0';

/** The engine's own, which every process has. */
const internalCatalogs: ReadonlySet<string> = new Set(['memory', 'system', 'temp']);
const internalSchemas: ReadonlySet<string> = new Set(['information_schema', 'pg_catalog']);

/** Changes after which there are the same catalogs and schemas as before. */
const leavesSchemas: ReadonlySet<Change['kind']> = new Set([
  'createTable',
  'dropTable',
  'renameTable',
  'truncateTable',
  'alterTable',
  'createView',
  'replaceView',
  'renameView',
  'dropView',
]);

const pathOf = ({ catalog, database, table }: TableName) => [catalog, database, table];
const keyOf = (...parts: readonly string[]) => JSON.stringify(parts.map(foldedName));

export class NamedObjectReader {
  readonly #definitions: DefinitionVersions;
  readonly #views: ViewUsage;
  readonly #tables = new Map<string, CachedTable>();
  #generation = 0;
  #schemas: Schemas | undefined;
  #uniqueKeys: ReadonlyMap<string, readonly string[]> | undefined;

  constructor(definitions: DefinitionVersions, views: ViewUsage) {
    this.#definitions = definitions;
    this.#views = views;
  }

  /** To be called before and after each change, as that of Definitions. */
  note(change: Change): void {
    this.#generation++;
    this.#uniqueKeys = undefined;
    if (!leavesSchemas.has(change.kind)) this.#schemas = undefined;
  }

  async read(
    connection: DuckDBConnection,
    { sql, catalog, database }: Omit<Statement, 'parameters'>,
  ): Promise<NamedObjects> {
    const names = scanTableNames(sql);
    const isWriting = writingWord(sql) !== undefined;
    const namespace = { catalog: catalog.name, database };
    for (let attempt = 1; ; attempt++) {
      const { epoch } = this.#definitions;
      const isSame = this.#views.watch();
      const schemas = await this.#allSchemas(connection);
      const paths = names.flatMap((parts) => candidatePaths(parts, namespace));
      const through = await this.#views.through(connection, paths);
      const views = new Set(through.views.map((one) => keyOf(...pathOf(one))));
      const all = [...paths, ...through.tables.map(pathOf)].filter((path) => !views.has(keyOf(...path)));
      const tables = await this.#tablesOf(connection, all, schemas, isWriting);
      // What was read in several steps must be of one state of the definitions.
      const looked = all.map(([catalog = '', database = '', table = '']) => ({ catalog, database, table }));
      const isCurrent = isSame() && !this.#definitions.changedSince(epoch, [...looked, ...tables, ...through.views]);
      if (!isCurrent && attempt < attemptsMax) continue;
      return {
        token: isCurrent ? String(epoch) : changingToken,
        ...among(schemas, [...paths, ...all, ...through.views.map(pathOf), [catalog.name, database ?? 'main']]),
        tables,
        views: through.views,
        underViews: through.tables,
      };
    }
  }

  async #tablesOf(
    connection: DuckDBConnection,
    paths: readonly (readonly string[])[],
    { schemas }: Schemas,
    isWriting: boolean,
  ): Promise<NamedTable[]> {
    const found = new Map<string, NamedTable>();
    const uniqueKeys = isWriting ? await this.#allUniqueKeys(connection) : undefined;
    for (const [catalog = '', database = '', table = ''] of paths) {
      const key = keyOf(catalog, database, table);
      const schema = schemas.get(keyOf(catalog, database));
      if (found.has(key) || !schema || isInternal(schema)) continue;
      const one = await this.#table(connection, key, { ...schema, table });
      if (one) found.set(key, { ...one.name, columns: one.columns, uniqueKeys: uniqueKeys?.get(key) ?? [] });
    }
    return [...found.values()];
  }

  /** Undefined where no table has the name. */
  async #table(connection: DuckDBConnection, key: string, name: TableName): Promise<CachedTable | undefined> {
    const cached = this.#tables.get(key);
    if (cached && !this.#definitions.changedSince(cached.epoch, [cached.name])) return cached;
    this.#tables.delete(key);
    const { epoch } = this.#definitions;
    const exact = await exactName(connection, name);
    const columns = exact && (await columnsOf(connection, exact));
    if (!exact || columns === undefined) return undefined;
    const table = { name: exact, columns, epoch };
    if (this.#tables.size >= cachedTablesMax) this.#tables.clear();
    this.#tables.set(key, table);
    return table;
  }

  async #allSchemas(connection: DuckDBConnection): Promise<Schemas> {
    if (this.#schemas) return this.#schemas;
    const generation = this.#generation;
    const rows = await rowsOf(connection, 'SELECT database_name, schema_name FROM duckdb_schemas()');
    const all = rows.map(([catalog, database]) => ({ catalog: String(catalog), database: String(database) }));
    const found: Schemas = {
      catalogs: new Map(all.map(({ catalog }) => [foldedName(catalog), catalog])),
      schemas: new Map(all.map((one) => [keyOf(one.catalog, one.database), one])),
    };
    if (generation === this.#generation) this.#schemas = found;
    return found;
  }

  /** Of all tables: the engine has no faster way to find the indexes of one. */
  async #allUniqueKeys(connection: DuckDBConnection): Promise<ReadonlyMap<string, readonly string[]>> {
    if (this.#uniqueKeys) return this.#uniqueKeys;
    const generation = this.#generation;
    const text = 'SELECT database_name, schema_name, table_name, sql FROM duckdb_indexes() WHERE is_unique';
    const found = new Map<string, string[]>();
    for (const [catalog, database, table, sql] of await rowsOf(connection, text)) {
      const key = keyOf(String(catalog), String(database), String(table));
      found.set(key, [...(found.get(key) ?? []), bracketed(String(sql))]);
    }
    if (generation === this.#generation) this.#uniqueKeys = found;
    return found;
  }
}

const isInternal = ({ catalog, database }: NamedSchema) =>
  internalCatalogs.has(foldedName(catalog)) || internalSchemas.has(foldedName(database));

/** Those that a path could name: each of its parts but the last decides how it is read. */
function among({ catalogs, schemas }: Schemas, paths: readonly (readonly string[])[]) {
  const foundCatalogs = new Set<string>();
  const foundSchemas = new Map<string, NamedSchema>();
  for (const [catalog = '', database = ''] of paths) {
    const name = catalogs.get(foldedName(catalog));
    if (name === undefined || internalCatalogs.has(foldedName(name))) continue;
    foundCatalogs.add(name);
    const key = keyOf(catalog, database);
    const schema = schemas.get(key);
    if (schema && !isInternal(schema)) foundSchemas.set(key, schema);
  }
  return { catalogs: [...foundCatalogs], schemas: [...foundSchemas.values()] };
}

/** With the case of its letters as the engine has it. A list of all tables would take half a second where there are 20,000. */
async function exactName(connection: DuckDBConnection, name: TableName): Promise<TableName | undefined> {
  const text = 'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)';
  const [[json] = []] = await rowsOf(connection, text, [`SELECT 1 FROM ${qualified(name)}`]);
  const scan = scanIn(JSON.parse(String(json)));
  const { catalog, schema, table } = (scan?.function_data ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof catalog !== 'string' || typeof schema !== 'string' || typeof table !== 'string') return undefined;
  return { catalog, database: schema, table };
}

interface PlanNode {
  readonly type?: string;
  readonly function_data?: unknown;
  readonly plans?: readonly PlanNode[];
  readonly children?: readonly PlanNode[];
}

/** The only one in the plan of a table. */
function scanIn({ type, function_data, plans = [], children = [] }: PlanNode): PlanNode | undefined {
  if (type === 'LOGICAL_GET') return { function_data };
  for (const one of [...plans, ...children]) {
    const found = scanIn(one);
    if (found) return found;
  }
  return undefined;
}

async function columnsOf(connection: DuckDBConnection, name: TableName): Promise<string | undefined> {
  try {
    const rows = await rowsOf(connection, `DESCRIBE ${qualified(name)}`);
    const columns = rows.map(([column, type, nullable, _key, value]) => {
      const parts = [quoteIdentifier(String(column)), String(type)];
      if (nullable === 'NO') parts.push('NOT NULL');
      if (value !== null) parts.push(`DEFAULT (${value})`);
      return parts.join(' ');
    });
    const primaryKey = rows.filter((row) => row[3] === 'PRI').map(([column]) => String(column));
    if (primaryKey.length > 0) columns.push(`PRIMARY KEY (${nameList(primaryKey)})`);
    return columns.join(', ');
  } catch (error) {
    // It was dropped since its name was read.
    if (error instanceof Error && /does not exist/.test(error.message)) return undefined;
    throw error;
  }
}

export const qualified = ({ catalog, database, table }: TableName) =>
  qualifiedTable({ catalog: { id: '', name: catalog }, database, table });

/** `CREATE UNIQUE INDEX i ON d.t("a");` → `("a")` */
function bracketed(sql: string): string {
  for (const { text, at } of tokensOf(sql)) if (text === '(') return sql.slice(at).replace(/;\s*$/, '');
  return '';
}
