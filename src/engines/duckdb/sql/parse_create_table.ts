// Parses a CREATE TABLE statement: DuckDB plans it and runs it in a scratch database, in a transaction that is rolled back. No text
// is interpreted here, except the lengths of VARCHAR(n), which DuckDB confirms (see varchar_lengths.ts).
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ColumnDefinition } from '../../../model/records.ts';
import { formatType, TypeSyntaxError } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateTable } from '../../port/statements.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';
import { checkDefault, numberTooLarge, parseTree } from './default_expression.ts';
import { quoteIdentifier } from './identifiers.ts';
import { tokensOf } from './statement_checks.ts';
import { withTextLengths } from './varchar_lengths.ts';

/** The default catalog and schema, whose name no statement uses: a name part that equals it was not written. */
const defaultName = '__tabularium_unwritten';
/** A catalog and a schema, and one more attempt as a margin. */
const missingParentsMax = 3;

/** Statements of one connection run one at a time, because they share its scratch objects. */
const queues = new WeakMap<DuckDBConnection, Promise<unknown>>();

/**
 * @param connection of an in-memory instance that is used for nothing else. @throws Failure SQL_INVALID with line and column, or
 * SQL_NOT_SUPPORTED.
 */
export async function parseCreateTable(connection: DuckDBConnection, sql: string): Promise<ParsedCreateTable> {
  const before = queues.get(connection) ?? prepareScratch(connection);
  const work = before.then(() => parseInScratch(connection, sql));
  queues.set(
    connection,
    work.catch(() => undefined),
  );
  return work;
}

async function prepareScratch(connection: DuckDBConnection): Promise<void> {
  const name = quoteIdentifier(defaultName);
  await connection.run(`ATTACH IF NOT EXISTS ':memory:' AS ${name}`);
  await connection.run(`CREATE SCHEMA IF NOT EXISTS ${name}.${name}`);
  await connection.run(`USE ${name}.${name}`);
}

async function parseInScratch(connection: DuckDBConnection, sql: string): Promise<ParsedCreateTable> {
  const parents = new ScratchParents(connection);
  try {
    const info = await planOf(connection, sql, parents);
    requireSupported(info);
    return await createAndRead(connection, sql, info);
  } finally {
    await parents.remove();
  }
}

interface PlannedColumn {
  readonly name: string;
  readonly category: string;
}
interface PlannedConstraint {
  readonly type: string;
  readonly is_primary_key?: boolean;
  readonly index?: number;
  readonly columns?: readonly string[];
}
interface CreateInfo {
  readonly catalog: string;
  readonly schema: string;
  readonly table: string;
  readonly temporary: boolean;
  readonly on_conflict: string;
  readonly columns: { readonly columns: readonly PlannedColumn[] };
  readonly constraints?: readonly PlannedConstraint[];
}
interface SerializedPlan {
  readonly error: boolean;
  readonly error_message?: string;
  readonly position?: string;
  readonly plans?: readonly {
    readonly type: string;
    readonly children?: readonly unknown[];
    readonly info?: CreateInfo;
  }[];
}

/** DuckDB's plan of the statement. Missing catalogs and schemas are created until the statement can be planned. */
async function planOf(connection: DuckDBConnection, sql: string, parents: ScratchParents): Promise<CreateInfo> {
  for (let attempt = 0; ; attempt++) {
    const [[text] = []] = await rowsOf(
      connection,
      'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)',
      [sql],
    );
    const plan = parseTree<SerializedPlan>(String(text));
    if (plan === undefined) throw invalidSql(sql, numberTooLarge);
    if (!plan.error) return requireCreateTable(connection, sql, plan);
    const message = plan.error_message ?? 'the statement cannot be parsed';
    if (attempt === 0) await requireKind(connection, sql);
    if (hasForeignKey(sql)) throw notSupported('foreign keys are not supported; leave out FOREIGN KEY and REFERENCES');
    if (attempt >= missingParentsMax || !(await parents.createMissing(message)))
      throw invalidSql(sql, message, plan.position);
  }
}

/** CREATE OR REPLACE LOCAL TEMPORARY TABLE */
const headWordsMax = 6;
const onlyCreateTable = 'only a CREATE TABLE statement is allowed here';
const exactlyOne = 'the text must contain exactly one CREATE TABLE statement';

/** Of a text that cannot be planned: what other statements lack is of no interest. A syntax error remains one. */
async function requireKind(connection: DuckDBConnection, sql: string): Promise<void> {
  const count = await connection.extractStatements(sql).then(
    (statements) => statements.count,
    () => undefined,
  );
  if (count === undefined || count === 0) return;
  if (count > 1) throw notSupported(exactlyOne);
  const words: string[] = [];
  for (const { text } of tokensOf(sql)) if (words.push(text) === headWordsMax) break;
  if (
    !/^create (?:or replace )?(?:(?:local|global|temp|temporary|persistent|unlogged) ){0,2}table\b/i.test(
      words.join(' '),
    )
  )
    throw notSupported(onlyCreateTable);
}

async function requireCreateTable(
  connection: DuckDBConnection,
  sql: string,
  plan: SerializedPlan,
): Promise<CreateInfo> {
  const plans = plan.plans ?? [];
  const [only] = plans;
  if (only === undefined) throw invalidSql(sql, 'the text contains no statement');
  // The plan omits statements that have no plan of their own; the parser counts them.
  if (plans.length > 1 || (await connection.extractStatements(sql)).count !== 1) {
    throw notSupported(exactlyOne);
  }
  if (only.type !== 'LOGICAL_CREATE_TABLE' || only.info === undefined) {
    throw notSupported(onlyCreateTable);
  }
  if (only.children)
    throw notSupported('CREATE TABLE ... AS SELECT is not supported here: use POST .../tables with `asSelect`');
  return only.info;
}

/**
 * Whether the statement declares a foreign key, outside of strings, quoted names and comments. DuckDB reports only that the
 * referenced table does not exist.
 */
function hasForeignKey(sql: string): boolean {
  return [...tokensOf(sql)].some(({ text }) => /^(?:references|foreign)$/i.test(text));
}

const knownParts = new Set(
  'type catalog schema temporary internal on_conflict sql comment table columns constraints dependencies'.split(' '),
);

function requireSupported(info: CreateInfo): void {
  if (info.temporary) throw notSupported('temporary tables are not supported');
  if (info.on_conflict === 'REPLACE_ON_CONFLICT')
    throw notSupported('CREATE OR REPLACE is not supported: drop the table first');
  const other = Object.keys(info).find((key) => !knownParts.has(key));
  if (other)
    throw notSupported(`the clause for ${other.replaceAll('_', ' ')} is not supported: use the fields of the table`);
  const generated = info.columns.columns.find((column) => column.category !== 'STANDARD');
  if (generated) throw notSupported(`the column "${generated.name}" is generated; generated columns are not supported`);
  const collated = info.columns.columns.find((column) => /"collation":"[^"]/.test(JSON.stringify(column)));
  if (collated) throw notSupported(`the column "${collated.name}" has a collation; collations are not supported`);
  for (const constraint of info.constraints ?? []) {
    if (constraint.type !== 'UNIQUE' && constraint.type !== 'NOT_NULL') {
      throw notSupported(`${constraint.type.replaceAll('_', ' ')} constraints are not supported`);
    }
  }
  if ((info.constraints ?? []).filter((c) => c.type === 'UNIQUE' && !c.is_primary_key).length > 1) {
    throw notSupported('a table has at most one UNIQUE key besides its primary key');
  }
}

/** Creates the table, reads its columns, and rolls back. */
async function createAndRead(connection: DuckDBConnection, sql: string, info: CreateInfo): Promise<ParsedCreateTable> {
  const found = await createdColumns(connection, sql, info).catch((error: Error) => {
    throw invalidSql(sql, error.message.replace(/^[A-Za-z ]+ Error: /, '').split('\n')[0] ?? '');
  });
  const types = found.map(({ name, typeText }) => {
    const type = logicalTypeOf(typeText);
    if (type === undefined) throw notSupported(`the column "${name}" has type ${typeText}, which is not supported`);
    return type;
  });
  const markedTypes = (marked: string): Promise<string[]> =>
    createdColumns(connection, marked, info).then((columns) => columns.map((column) => column.typeText));
  const exactTypes = await withTextLengths(sql, types, markedTypes).catch((error: Error) => {
    throw error instanceof TypeSyntaxError ? invalidSql(sql, error.message) : error;
  });

  const exactName = (name: string): string =>
    found.find((column) => column.name.toLowerCase() === name.toLowerCase())?.name ?? name;
  const key = (primary: boolean): string[] => {
    const constraint = info.constraints?.find((c) => c.type === 'UNIQUE' && (c.is_primary_key ?? false) === primary);
    return constraint?.columns?.map(exactName) ?? [];
  };
  const primaryKey = key(true);
  const columns = found.map(({ name, nullable, defaultText }, i): ColumnDefinition => {
    const column = { name, type: exactTypes[i]!, nullable: nullable && !primaryKey.includes(name) };
    // DEFAULT NULL is the same as no default.
    return defaultText === null || defaultText === 'NULL' ? column : { ...column, defaultValue: defaultText };
  });
  await requireDefaults(connection, sql, columns);
  return {
    ...(info.catalog === defaultName ? {} : { catalog: info.catalog }),
    ...(info.schema === defaultName ? {} : { database: info.schema }),
    table: info.table,
    ifNotExists: info.on_conflict === 'IGNORE_ON_CONFLICT',
    definition: { columns, primaryKey, uniqueKey: key(false) },
  };
}

interface CreatedColumn {
  readonly name: string;
  readonly typeText: string;
  readonly nullable: boolean;
  readonly defaultText: string | null;
}

async function createdColumns(connection: DuckDBConnection, sql: string, info: CreateInfo): Promise<CreatedColumn[]> {
  await connection.run('BEGIN TRANSACTION');
  try {
    await connection.run(sql);
    const rows = await rowsOf(
      connection,
      'SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() ' +
        'WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 ORDER BY column_index',
      [info.catalog, info.schema, info.table],
    );
    return rows.map(([name, typeText, nullable, defaultText]) => ({
      name: String(name),
      typeText: String(typeText),
      nullable: nullable === true,
      defaultText: defaultText === null ? null : String(defaultText),
    }));
  } finally {
    await connection.run('ROLLBACK').catch(() => undefined);
  }
}

async function requireDefaults(
  connection: DuckDBConnection,
  sql: string,
  columns: readonly ColumnDefinition[],
): Promise<void> {
  // Ten thousand columns may share one default, and each check takes two queries.
  const checked = new Set<string>();
  for (const { name, type, defaultValue } of columns) {
    const key = `${formatType(type)} ${defaultValue}`;
    if (defaultValue === undefined || checked.has(key)) continue;
    checked.add(key);
    try {
      await checkDefault(connection, defaultValue, type);
    } catch (error) {
      throw error instanceof Failure ? invalidSql(sql, `column "${name}": ${error.message}`) : error;
    }
  }
}

/** Catalogs and schemas that a statement names, created for it and removed after it. */
class ScratchParents {
  readonly #connection: DuckDBConnection;
  readonly #catalogs: string[] = [];
  readonly #schemas: string[] = [];

  constructor(connection: DuckDBConnection) {
    this.#connection = connection;
  }

  /** Creates the catalog or schema that the message reports as missing. Returns false if the message is about something else. */
  async createMissing(message: string): Promise<boolean> {
    const [, kind, name] = /^(Catalog|Schema) with name (.*?) does not exist!/s.exec(message) ?? [];
    if (kind === undefined || name === undefined) return false;
    if (kind === 'Catalog') {
      await this.#connection.run(`ATTACH ':memory:' AS ${quoteIdentifier(name)}`);
      this.#catalogs.push(name);
      return true;
    }
    for (const catalog of [...this.#catalogs, defaultName]) {
      const schema = `${quoteIdentifier(catalog)}.${quoteIdentifier(name)}`;
      await this.#connection.run(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
      if (catalog === defaultName) this.#schemas.push(schema);
    }
    return true;
  }

  async remove(): Promise<void> {
    for (const schema of this.#schemas) await this.#connection.run(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    for (const catalog of this.#catalogs) await this.#connection.run(`DETACH ${quoteIdentifier(catalog)}`);
  }
}

const notSupported = (message: string): Failure => new Failure('SQL_NOT_SUPPORTED', message);

/** `position`: DuckDB's offset into the text; without it the failure points to the beginning of the statement. */
function invalidSql(sql: string, message: string, position?: string): Failure {
  const bytes = Buffer.from(sql);
  const before = bytes.subarray(0, Number(position ?? 0)).toString();
  const line = before.split('\n').length;
  const column = before.length - before.lastIndexOf('\n');
  return new Failure('SQL_INVALID', message.split('\n\n')[0]!.replaceAll('\n', ' '), { line, column });
}
