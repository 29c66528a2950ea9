// A PostgreSQL database as the source of an import: one schema, in one read-only transaction with one snapshot; rows come through a cursor.
import pg from 'pg';
import type {
  ImportSource,
  NotCarried,
  SourceDatabase,
  SourceOptions,
  SourceTable,
  SourceView,
  TextRows,
} from '../../../model/import_source.ts';
import { sqlIdentifier } from '../../../model/names.ts';
import { OperatorError } from '../../../operator/operator_error.ts';
import {
  hostsOf,
  isPostgresqlUrl,
  type PostgresqlLocation,
  parsePostgresqlUrl,
} from '../../../store/postgresql/postgresql_url.ts';
import { CommandError } from '../exit_codes.ts';
import {
  type Candidate,
  candidateOf,
  chosenColumn,
  type DatabaseColumn,
  type ReadColumn,
} from './postgresql_columns.ts';
import * as queries from './postgresql_queries.ts';

const connectMs = 10_000;
/** For a statement to give its first rows: a large table is read whole for its probes. */
const statementMs = 3_600_000;
const batchBytes = 4 * 1024 * 1024;
const batchRowsMax = 10_000;
const defaultSchema = 'public';

/** Texts of dates and numbers that depend on nothing else; the snapshot of all reads. */
const settings = [
  'BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY',
  `SET LOCAL DateStyle = 'ISO'`,
  `SET LOCAL TimeZone = 'UTC'`,
  `SET LOCAL IntervalStyle = 'iso_8601'`,
  'SET LOCAL extra_float_digits = 3',
  'SET LOCAL row_security = off',
  'SET LOCAL idle_in_transaction_session_timeout = 0',
];

/** Throws OperatorError, also for a URL that is none. */
export async function openPostgresqlSource(url: string, options: SourceOptions): Promise<ImportSource> {
  if (!isPostgresqlUrl(url))
    throw new CommandError('usage', '--from must have the form postgres://<user>@<host>:<port>/<database>');
  const location = parsePostgresqlUrl(url, '--from');
  const { host, port, database } = location;
  const name = `postgres://${host.startsWith('/') ? '' : `${host}:${port}`}/${database}`;
  const client = await connected(location, name);
  try {
    for (const setting of settings) await client.query(setting);
    const source = new PostgresqlSource(name, client, options);
    await source.selectSchema();
    return source;
  } catch (error) {
    await client.end().catch(() => undefined);
    throw toOperatorError(name, error);
  }
}

/** The first of the servers that accepts a connection; a standby is one too. */
async function connected({ tls, others: _, ...location }: PostgresqlLocation, name: string): Promise<pg.Client> {
  let failure: unknown;
  for (const host of hostsOf({ ...location, others: _ })) {
    const client = new pg.Client({
      ...location,
      ...host,
      ssl: tls ?? false,
      connectionTimeoutMillis: connectMs,
      query_timeout: statementMs,
      application_name: 'tabularium import',
      keepAlive: true,
      // All values as texts.
      types: { getTypeParser: () => (text: unknown) => text },
    });
    // A lost connection also fails its next statement.
    client.on('error', () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      failure ??= error;
      await client.end().catch(() => undefined);
    }
  }
  throw toOperatorError(name, failure);
}

type Texts = Readonly<Record<string, string | null>>;

class PostgresqlSource implements ImportSource {
  readonly name: string;
  readonly #client: pg.Client;
  readonly #only: readonly string[] | undefined;
  readonly #schema: string;
  readonly #columns = new Map<string, readonly ReadColumn[]>();
  readonly #parents = new Set<string>();

  constructor(name: string, client: pg.Client, { schema = defaultSchema, tables }: SourceOptions) {
    this.name = name;
    this.#client = client;
    this.#schema = schema;
    this.#only = tables;
  }

  /** Texts of views then have no names of the schema. */
  async selectSchema(): Promise<void> {
    const found = await this.#texts('SELECT 1 AS found FROM pg_namespace WHERE nspname = $1', this.#schema);
    if (found.length === 0) throw new OperatorError(`${this.name} has no schema ${JSON.stringify(this.#schema)}`);
    await this.#client.query(`SET LOCAL search_path = ${sqlIdentifier(this.#schema)}`);
  }

  async read(signal: AbortSignal): Promise<SourceDatabase> {
    try {
      return await this.#read(signal);
    } catch (error) {
      throw toOperatorError(this.name, error);
    }
  }

  async #read(signal: AbortSignal): Promise<SourceDatabase> {
    const notCarried: NotCarried[] = [];
    const tables: SourceTable[] = [];
    const views: SourceView[] = [];
    for (const relation of await this.#texts(queries.relations, this.#schema)) {
      signal.throwIfAborted();
      const { name: given, kind, comment, definition } = relation;
      const name = String(given);
      if (this.#only && !this.#only.includes(name)) continue;
      if (kind === 'p') this.#parents.add(name);
      if (kind === 'r' || kind === 'p') tables.push(await this.#table(name, comment ?? undefined, notCarried));
      else if (this.#only) continue;
      else if (kind === 'f') notCarried.push({ object: name, kind: 'foreign table', text: 'is not copied' });
      else {
        if (kind === 'm')
          notCarried.push({
            object: name,
            kind: 'materialized view',
            text: 'becomes a view, which is computed when it is read',
          });
        views.push({ name, sql: String(definition).replace(/;\s*$/, ''), comment: comment ?? undefined });
      }
    }
    if (this.#only === undefined)
      for (const { object, kind, text } of await this.#texts(queries.others, this.#schema))
        notCarried.push({ object: String(object), kind: String(kind), text: String(text) });
    return { tables, views, notCarried };
  }

  async #table(name: string, comment: string | undefined, notCarried: NotCarried[]): Promise<SourceTable> {
    const declared = (await this.#texts(queries.columns, this.#schema, name)).map(databaseColumn);
    const candidates = declared.map(candidateOf);
    const { rowCount, probed } = await this.#probe(name, candidates);
    const columns = candidates.map((candidate, i) =>
      chosenColumn(name, candidate, probed[i] ?? { digits: undefined, isMisfit: false }, notCarried),
    );
    this.#columns.set(name, columns);
    let primaryKey: readonly string[] = [];
    const uniqueKeys: (readonly string[])[] = [];
    for (const { kind, names, definition } of await this.#texts(queries.constraints, this.#schema, name)) {
      const keys = JSON.parse(names ?? '[]') as string[];
      if (kind === 'p') primaryKey = keys;
      else if (kind === 'u') uniqueKeys.push(keys);
      else
        notCarried.push({
          object: name,
          kind: constraintKinds[kind ?? ''] ?? 'constraint',
          text: `is not enforced: ${definition}`,
        });
    }
    const [uniqueKey = [], ...moreKeys] = uniqueKeys;
    for (const names of moreKeys)
      notCarried.push({ object: name, kind: 'unique key', text: `a table has one unique key: (${names.join(', ')})` });
    return { name, comment, columns, primaryKey, uniqueKey, rowCount };
  }

  /** Reads the table once: how many rows it has, and which types its values need. */
  async #probe(name: string, candidates: readonly Candidate[]) {
    const selected = candidates.flatMap(({ misfit, digits }, i) => [
      ...(misfit === undefined ? [] : [`${misfit} AS m${i}`]),
      ...(digits === undefined ? [] : [`${digits[0]} AS w${i}`, `${digits[1]} AS s${i}`]),
    ]);
    const [row = {}] = await this.#texts(
      `SELECT ${['count(*) AS n', ...selected].join(', ')} FROM ${this.#from(name)}`,
    );
    const probed = candidates.map(({ digits }, i) => ({
      digits: digits && ([Number(row[`w${i}`] ?? 1), Number(row[`s${i}`] ?? 0)] as const),
      isMisfit: row[`m${i}`] === 't',
    }));
    return { rowCount: Number(row.n), probed };
  }

  async *rows(table: SourceTable, signal: AbortSignal): TextRows {
    const columns = this.#columns.get(table.name) ?? [];
    const selected = columns.map(({ expression }) => expression).join(', ');
    const run = async (text: string) => {
      signal.throwIfAborted();
      try {
        return (await this.#client.query<(string | null)[]>({ text, rowMode: 'array' })).rows;
      } catch (error) {
        throw toOperatorError(this.name, error);
      }
    };
    await run(`DECLARE imported NO SCROLL CURSOR FOR SELECT ${selected} FROM ${this.#from(table.name)}`);
    // As many rows as have the size of a batch, by the size of those before.
    for (let count = 100; ; ) {
      const rows = await run(`FETCH FORWARD ${count} FROM imported`);
      if (rows.length === 0) break;
      yield rows;
      const characters = rows.reduce((sum, row) => row.reduce((of, text) => of + (text?.length ?? 0), sum), 1);
      count = Math.max(1, Math.min(batchRowsMax, Math.floor((batchBytes * rows.length) / characters)));
    }
    await run('CLOSE imported');
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }

  /** The partitions of a table are read with it; tables that inherit from it are tables of their own. */
  #from(table: string): string {
    return `${this.#parents.has(table) ? '' : 'ONLY '}${sqlIdentifier(this.#schema)}.${sqlIdentifier(table)}`;
  }

  async #texts(text: string, ...values: readonly string[]): Promise<readonly Texts[]> {
    return (await this.#client.query<Texts>(text, [...values])).rows;
  }
}

const constraintKinds: Readonly<Record<string, string>> = {
  c: 'check',
  f: 'foreign key',
  x: 'exclusion',
  t: 'trigger',
};

const databaseColumn = (row: Texts): DatabaseColumn => ({
  name: String(row.name),
  type: String(row.type),
  isBuiltIn: row.is_built_in === 't',
  domain: row.domain ?? null,
  isEnum: row.is_enum === 't',
  nullable: row.nullable === 't',
  default: row.default ?? null,
  comment: row.comment ?? null,
  isGenerated: row.is_generated === 't',
  isIdentity: row.is_identity === 't',
});

export function toOperatorError(name: string, error: unknown): unknown {
  if (error instanceof OperatorError || !(error instanceof Error) || error.name === 'AbortError') return error;
  const { code = '' } = error as { readonly code?: string };
  const because = (text: string) => new OperatorError(`${name}: ${text}`, { cause: error });
  if (/^28/.test(code))
    return because(`${error.message}; give the user in the URL, and the password in PGPASSWORD or ~/.pgpass`);
  if (code === '3D000') return because(error.message);
  if (code === '42501') return because(`${error.message}; the user must be allowed to read every table`);
  // Codes of the system, such as EPIPE, can look like those of PostgreSQL.
  if (error instanceof pg.DatabaseError && !/^(08|57P)/.test(code)) return because(error.message);
  return because(
    `the connection failed (${error.message || code}); run the import again, what is complete is not repeated`,
  );
}
