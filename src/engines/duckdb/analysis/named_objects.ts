// Resolves the names in a statement's text: collects the definitions of the tables and views, and the catalogs and schemas that decide
// how a two-part name is resolved. Runs in the process that has the files, for the process that binds the statement. See object_copies.ts.
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Change } from '../../port/changes.ts';
import type { TableName } from '../../port/refs.ts';
import type { Statement } from '../../port/statements.ts';
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
  /** Its columns and keys, as CREATE TABLE takes them in parentheses. */
  readonly columns: string;
  /** The columns of each unique index, in parentheses. Only filled if the statement writes. */
  readonly uniqueKeys: readonly string[];
}

export interface NamedView extends TableName {
  readonly query: string;
}

export interface NamedObjects {
  /** Identifies the version of the definitions. */
  readonly token: string;
  readonly catalogs: readonly string[];
  readonly schemas: readonly NamedSchema[];
  /** Includes the tables that the views read. */
  readonly tables: readonly NamedTable[];
  readonly views: readonly NamedView[];
  /** The members of `tables` that the views read. */
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

/** Attempts to resolve the names while their definitions are changing; after the last one the statement counts as changed. */
const attemptsMax = 5;
const cachedTablesMax = 10_000;

/** The token of definitions that are being changed: a statement bound with it counts as changed. */
export const changingToken = '0';

/** Built into the engine, so that every process has them. */
const internalCatalogs: ReadonlySet<string> = new Set(['memory', 'system', 'temp']);
const internalSchemas: ReadonlySet<string> = new Set(['information_schema', 'pg_catalog']);

/** Changes that do not affect which catalogs and schemas exist. */
const changesWithinSchemas: ReadonlySet<Change['kind']> = new Set([
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

  /** Must be called before and after each change, like `DefinitionVersions.note`. */
  note(change: Change): void {
    this.#generation++;
    this.#uniqueKeys = undefined;
    if (!changesWithinSchemas.has(change.kind)) this.#schemas = undefined;
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
      const areViewsUnchanged = this.#views.watch();
      const schemas = await this.#allSchemas(connection);
      const paths = names.flatMap((parts) => candidatePaths(parts, namespace));
      const expansion = await this.#views.expand(connection, paths);
      const views = new Set(expansion.views.map((view) => keyOf(...pathOf(view))));
      const tablePaths = [...paths, ...expansion.tables.map(pathOf)].filter((path) => !views.has(keyOf(...path)));
      const tables = await this.#tablesOf(connection, tablePaths, schemas, isWriting);
      // The objects were read in several steps, which must all have seen the same version of the definitions.
      const candidates = tablePaths.map(([catalog = '', database = '', table = '']) => ({ catalog, database, table }));
      const isCurrent =
        areViewsUnchanged() && !this.#definitions.changedSince(epoch, [...candidates, ...tables, ...expansion.views]);
      if (!isCurrent && attempt < attemptsMax) continue;
      return {
        token: isCurrent ? String(epoch) : changingToken,
        ...schemasNamedIn(schemas, [
          ...paths,
          ...tablePaths,
          ...expansion.views.map(pathOf),
          [catalog.name, database ?? 'main'],
        ]),
        tables,
        views: expansion.views,
        underViews: expansion.tables,
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
      const cached = await this.#table(connection, key, { ...schema, table });
      if (cached) found.set(key, { ...cached.name, columns: cached.columns, uniqueKeys: uniqueKeys?.get(key) ?? [] });
    }
    return [...found.values()];
  }

  /** Undefined if no table has the name. */
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
      schemas: new Map(all.map((schema) => [keyOf(schema.catalog, schema.database), schema])),
    };
    if (generation === this.#generation) this.#schemas = found;
    return found;
  }

  /** Reads the keys of all tables: the engine has no faster way to find the indexes of a single table. */
  async #allUniqueKeys(connection: DuckDBConnection): Promise<ReadonlyMap<string, readonly string[]>> {
    if (this.#uniqueKeys) return this.#uniqueKeys;
    const generation = this.#generation;
    const text = 'SELECT database_name, schema_name, table_name, sql FROM duckdb_indexes() WHERE is_unique';
    const found = new Map<string, string[]>();
    for (const [catalog, database, table, sql] of await rowsOf(connection, text)) {
      const key = keyOf(String(catalog), String(database), String(table));
      found.set(key, [...(found.get(key) ?? []), indexedColumns(String(sql))]);
    }
    if (generation === this.#generation) this.#uniqueKeys = found;
    return found;
  }
}

const isInternal = ({ catalog, database }: NamedSchema) =>
  internalCatalogs.has(foldedName(catalog)) || internalSchemas.has(foldedName(database));

/** The catalogs and schemas that the paths could name: every part of a path but the last decides how it is resolved. */
function schemasNamedIn({ catalogs, schemas }: Schemas, paths: readonly (readonly string[])[]) {
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

/** The table's name in the engine's spelling. Listing all tables instead would take half a second with 20,000 tables. */
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

/** The only table scan in the plan of `SELECT 1 FROM table`. */
function scanIn({ type, function_data, plans = [], children = [] }: PlanNode): PlanNode | undefined {
  if (type === 'LOGICAL_GET') return { function_data };
  for (const child of [...plans, ...children]) {
    const found = scanIn(child);
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
    // The table was dropped after its name was read.
    if (error instanceof Error && /does not exist/.test(error.message)) return undefined;
    throw error;
  }
}

export const qualified = ({ catalog, database, table }: TableName) =>
  qualifiedTable({ catalog: { id: '', name: catalog }, database, table });

/** `CREATE UNIQUE INDEX i ON d.t("a");` → `("a")` */
function indexedColumns(sql: string): string {
  for (const { text, start } of tokensOf(sql)) if (text === '(') return sql.slice(start).replace(/;\s*$/, '');
  return '';
}
