// Reads a CREATE TABLE statement by having DuckDB plan it and run it in a scratch database, in a transaction that is rolled back.
// Nothing of the text is interpreted here, with one exception that DuckDB confirms: the lengths of VARCHAR(n) (varchar_lengths.ts).
import type { DuckDBConnection } from '@duckdb/node-api';
import type { ColumnDefinition } from '../../../model/records.ts';
import { formatType, TypeSyntaxError } from '../../../model/types.ts';
import { Failure } from '../../../standard/failure.ts';
import type { ParsedCreateTable } from '../../engine.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { logicalTypeOf } from '../types/type_mapping.ts';
import { checkDefault, numberTooLarge, parseTree } from './default_expression.ts';
import { quoteIdentifier } from './identifiers.ts';
import { tokensOf } from './statement_checks.ts';
import { withTextLengths } from './varchar_lengths.ts';

/** A name that no statement says, so that what is found in it was written without that part. */
const unwritten = '__tabularium_unwritten';
/** Catalog and schema, once each; and one more for a surprise. */
const missingParentsMax = 3;

/** One statement at a time on a connection: its scratch objects are the connection's. */
const queues = new WeakMap<DuckDBConnection, Promise<unknown>>();

/**
 * @param connection of an in-memory instance that nothing else lives in.
 * @throws Failure SQL_INVALID with line and column, or SQL_NOT_SUPPORTED.
 */
export async function parseCreateTable(connection: DuckDBConnection, sql: string): Promise<ParsedCreateTable> {
  const before = queues.get(connection) ?? prepareScratch(connection);
  const work = before.then(() => parseAlone(connection, sql));
  queues.set(
    connection,
    work.catch(() => undefined),
  );
  return work;
}

async function prepareScratch(connection: DuckDBConnection): Promise<void> {
  const name = quoteIdentifier(unwritten);
  await connection.run(`ATTACH IF NOT EXISTS ':memory:' AS ${name}`);
  await connection.run(`CREATE SCHEMA IF NOT EXISTS ${name}.${name}`);
  await connection.run(`USE ${name}.${name}`);
}

async function parseAlone(connection: DuckDBConnection, sql: string): Promise<ParsedCreateTable> {
  const parents = new ScratchParents(connection);
  try {
    const info = await planned(connection, sql, parents);
    requireSupported(info);
    return await realised(connection, sql, info);
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
interface Planned {
  readonly error: boolean;
  readonly error_message?: string;
  readonly position?: string;
  readonly plans?: readonly {
    readonly type: string;
    readonly children?: readonly unknown[];
    readonly info?: CreateInfo;
  }[];
}

/** What DuckDB makes of the statement; parents that it misses are made until it finds them. */
async function planned(connection: DuckDBConnection, sql: string, parents: ScratchParents): Promise<CreateInfo> {
  for (let attempt = 0; ; attempt++) {
    const [[text] = []] = await rowsOf(
      connection,
      'SELECT json_serialize_plan($1::VARCHAR, skip_null := true, skip_empty := true)',
      [sql],
    );
    const plan = parseTree<Planned>(String(text));
    if (plan === undefined) throw invalid(sql, numberTooLarge);
    if (!plan.error) return onlyCreateTable(connection, sql, plan);
    const message = plan.error_message ?? 'the statement is not understood';
    if (hasForeignKey(sql)) throw notSupported('foreign keys are not supported; leave out FOREIGN KEY and REFERENCES');
    if (attempt >= missingParentsMax || !(await parents.made(message))) throw invalid(sql, message, plan.position);
  }
}

async function onlyCreateTable(connection: DuckDBConnection, sql: string, plan: Planned): Promise<CreateInfo> {
  const plans = plan.plans ?? [];
  const [only] = plans;
  if (only === undefined) throw invalid(sql, 'there is no statement');
  // The plan skips what has none of its own; the count of the parser does not.
  if (plans.length > 1 || (await connection.extractStatements(sql)).count !== 1) {
    throw notSupported('exactly one CREATE TABLE statement is taken');
  }
  if (only.type !== 'LOGICAL_CREATE_TABLE' || only.info === undefined) {
    throw notSupported('only a CREATE TABLE statement is taken here');
  }
  if (only.children)
    throw notSupported(
      'CREATE TABLE ... AS SELECT is not taken: POST .../tables with `asSelect` makes a table of a query',
    );
  return only.info;
}

/** Outside of texts, quoted names and comments. The engine looks for the table that is referred to, and does not find it. */
function hasForeignKey(sql: string): boolean {
  return [...tokensOf(sql)].some(({ text }) => /^(?:references|foreign)$/i.test(text));
}

const knownParts = new Set(
  'type catalog schema temporary internal on_conflict sql comment table columns constraints dependencies'.split(' '),
);

function requireSupported(info: CreateInfo): void {
  if (info.temporary) throw notSupported('temporary tables are not made');
  if (info.on_conflict === 'REPLACE_ON_CONFLICT')
    throw notSupported('CREATE OR REPLACE is not taken: drop the table first');
  const other = Object.keys(info).find((key) => !knownParts.has(key));
  if (other)
    throw notSupported(`the clause for ${other.replaceAll('_', ' ')} is not taken: use the fields of the table`);
  const generated = info.columns.columns.find((column) => column.category !== 'STANDARD');
  if (generated) throw notSupported(`the column "${generated.name}" is generated; such columns are not made`);
  const collated = info.columns.columns.find((column) => /"collation":"[^"]/.test(JSON.stringify(column)));
  if (collated) throw notSupported(`the column "${collated.name}" has a collation; such columns are not made`);
  for (const constraint of info.constraints ?? []) {
    if (constraint.type !== 'UNIQUE' && constraint.type !== 'NOT_NULL') {
      throw notSupported(`${constraint.type.replaceAll('_', ' ')} constraints are not kept`);
    }
  }
  if ((info.constraints ?? []).filter((c) => c.type === 'UNIQUE' && !c.is_primary_key).length > 1) {
    throw notSupported('a table has at most one UNIQUE key besides its primary key');
  }
}

/** Makes the table, reads it back, and undoes it. */
async function realised(connection: DuckDBConnection, sql: string, info: CreateInfo): Promise<ParsedCreateTable> {
  const found = await columnsMade(connection, sql, info).catch((error: Error) => {
    throw invalid(sql, error.message.replace(/^[A-Za-z ]+ Error: /, '').split('\n')[0] ?? '');
  });
  const types = found.map(({ name, typeText }) => {
    const type = logicalTypeOf(typeText);
    if (type === undefined) throw notSupported(`the column "${name}" has type ${typeText}, which is not offered`);
    return type;
  });
  const markedTypes = (marked: string): Promise<string[]> =>
    columnsMade(connection, marked, info).then((columns) => columns.map((column) => column.typeText));
  const exactTypes = await withTextLengths(sql, types, markedTypes).catch((error: Error) => {
    throw error instanceof TypeSyntaxError ? invalid(sql, error.message) : error;
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
    // DEFAULT NULL says nothing.
    return defaultText === null || defaultText === 'NULL' ? column : { ...column, defaultValue: defaultText };
  });
  await requireDefaults(connection, sql, columns);
  return {
    ...(info.catalog === unwritten ? {} : { catalog: info.catalog }),
    ...(info.schema === unwritten ? {} : { database: info.schema }),
    table: info.table,
    ifNotExists: info.on_conflict === 'IGNORE_ON_CONFLICT',
    definition: { columns, primaryKey, uniqueKey: key(false) },
  };
}

interface MadeColumn {
  readonly name: string;
  readonly typeText: string;
  readonly nullable: boolean;
  readonly defaultText: string | null;
}

async function columnsMade(connection: DuckDBConnection, sql: string, info: CreateInfo): Promise<MadeColumn[]> {
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
  // Ten thousand columns may share one default; each check is two queries.
  const checked = new Set<string>();
  for (const { name, type, defaultValue } of columns) {
    const key = `${formatType(type)} ${defaultValue}`;
    if (defaultValue === undefined || checked.has(key)) continue;
    checked.add(key);
    try {
      await checkDefault(connection, defaultValue, type);
    } catch (error) {
      throw error instanceof Failure ? invalid(sql, `column "${name}": ${error.message}`) : error;
    }
  }
}

/** Catalogs and schemas that a statement names, made for it and removed after it. */
class ScratchParents {
  readonly #connection: DuckDBConnection;
  readonly #catalogs: string[] = [];
  readonly #schemas: string[] = [];

  constructor(connection: DuckDBConnection) {
    this.#connection = connection;
  }

  /** Whether the message says that a parent is missing, and it is there now. */
  async made(message: string): Promise<boolean> {
    const [, kind, name] = /^(Catalog|Schema) with name (.*?) does not exist!/s.exec(message) ?? [];
    if (kind === undefined || name === undefined) return false;
    if (kind === 'Catalog') {
      await this.#connection.run(`ATTACH ':memory:' AS ${quoteIdentifier(name)}`);
      this.#catalogs.push(name);
      return true;
    }
    for (const catalog of [...this.#catalogs, unwritten]) {
      const schema = `${quoteIdentifier(catalog)}.${quoteIdentifier(name)}`;
      await this.#connection.run(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
      if (catalog === unwritten) this.#schemas.push(schema);
    }
    return true;
  }

  async remove(): Promise<void> {
    for (const schema of this.#schemas) await this.#connection.run(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
    for (const catalog of this.#catalogs) await this.#connection.run(`DETACH ${quoteIdentifier(catalog)}`);
  }
}

const notSupported = (message: string): Failure => new Failure('SQL_NOT_SUPPORTED', message);

/** `position` is DuckDB's offset into the text; where it gives none, the statement as a whole is meant. */
function invalid(sql: string, message: string, position?: string): Failure {
  const bytes = Buffer.from(sql);
  const before = bytes.subarray(0, Number(position ?? 0)).toString();
  const line = before.split('\n').length;
  const column = before.length - before.lastIndexOf('\n');
  return new Failure('SQL_INVALID', message.split('\n\n')[0]!.replaceAll('\n', ' '), { line, column });
}
