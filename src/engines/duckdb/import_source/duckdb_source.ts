// A DuckDB file as the source of an import: read only, in this process, without access to other files.
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type {
  ImportSource,
  NotCarried,
  SourceDatabase,
  SourceOptions,
  SourceTable,
  TextRows,
} from '../../../model/import_source.ts';
import { OperatorError } from '../../../operator/operator_error.ts';
import { rowsOf } from '../instance/applied_steps.ts';
import { restrictedSettings } from '../instance/instances.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';
import { columnOf, type FileColumn, readAs, type SourcedColumn } from './column_reading.ts';
import { notCarriedObjects, readViews } from './other_objects.ts';

const openSettings = {
  access_mode: 'READ_ONLY',
  ...restrictedSettings,
  threads: '2',
  memory_limit: '1GiB',
};
const mainSchema = 'main';

/** Throws OperatorError. */
export async function openDuckdbSource(file: string, options: SourceOptions): Promise<ImportSource> {
  try {
    const instance = await DuckDBInstance.create(file, openSettings);
    const connection = await instance.connect();
    for (const setting of [`TimeZone = 'UTC'`, 'enable_external_access = false', 'lock_configuration = true'])
      await connection.run(`SET ${setting}`);
    // One transaction: definitions and rows are of the same moment.
    await connection.run('BEGIN TRANSACTION READ ONLY');
    return new DuckdbSource(file, instance, connection, options);
  } catch (error) {
    throw toOperatorError(file, error);
  }
}

class DuckdbSource implements ImportSource {
  readonly name: string;
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;
  readonly #options: SourceOptions;
  readonly #columns = new Map<string, readonly SourcedColumn[]>();

  constructor(file: string, instance: DuckDBInstance, connection: DuckDBConnection, options: SourceOptions) {
    this.name = file;
    this.#instance = instance;
    this.#connection = connection;
    this.#options = options;
  }

  get #schema(): string {
    return this.#options.schema ?? mainSchema;
  }

  async read(signal: AbortSignal): Promise<SourceDatabase> {
    return this.#failing(signal, async () => {
      const schema = this.#schema;
      const notCarried: NotCarried[] = [];
      const tables: SourceTable[] = [];
      const { tables: only } = this.#options;
      for (const [name, comment] of await this.#rowsOf(tablesSql, schema)) {
        if (only && !only.includes(String(name))) continue;
        signal.throwIfAborted();
        tables.push(await this.#table(String(name), comment === null ? undefined : String(comment), notCarried));
      }
      if (only) return { tables, views: [], notCarried };
      const others = await notCarriedObjects(this.#connection, schema);
      return { tables, views: await readViews(this.#connection, schema), notCarried: [...notCarried, ...others] };
    });
  }

  async #table(name: string, comment: string | undefined, notCarried: NotCarried[]): Promise<SourceTable> {
    const found = await this.#rowsOf(columnsSql, this.#schema, name);
    const declared = found.map(
      ([column, type, nullable, defaultText, note]): FileColumn => ({
        name: String(column),
        type: String(type),
        nullable: nullable === true,
        defaultText: defaultText === null ? undefined : String(defaultText),
        comment: note === null ? undefined : String(note),
      }),
    );
    const from = this.#from(name);
    const isOutside = await this.#outside(from, declared);
    const columns = declared.map((column, i) => columnOf(name, column, isOutside[i] === true, notCarried));
    this.#columns.set(name, columns);
    const keys = await this.#rowsOf(constraintsSql, this.#schema, name);
    const keysOf = (kind: string) =>
      keys.filter(([type]) => type === kind).map(([, names]) => JSON.parse(String(names)) as string[]);
    const [primaryKey = []] = keysOf('PRIMARY KEY');
    const [uniqueKey = [], ...moreKeys] = keysOf('UNIQUE');
    for (const names of moreKeys)
      notCarried.push({ object: name, kind: 'unique key', text: `a table has one unique key: (${names.join(', ')})` });
    for (const [type, , text] of keys.filter(([kind]) => kind === 'FOREIGN KEY' || kind === 'CHECK'))
      notCarried.push({ object: name, kind: String(type).toLowerCase(), text: `is not enforced: ${String(text)}` });
    const [[count] = []] = await rowsOf(this.#connection, `SELECT count(*) FROM ${from}`);
    return { name, comment, columns, primaryKey, uniqueKey, rowCount: Number(count) };
  }

  /** For each column, whether it has dates that no column of the server has. */
  async #outside(from: string, columns: readonly FileColumn[]): Promise<readonly unknown[]> {
    const isDate = ({ type }: FileColumn) => /^(DATE|TIMESTAMP)/.test(type) && !type.includes('[');
    if (!columns.some(isDate)) return [];
    const tests = columns.map((column) => {
      const name = quoteIdentifier(column.name);
      return isDate(column) ? `bool_or(NOT isfinite(${name}) OR year(${name}) NOT BETWEEN 1 AND 9999)` : 'false';
    });
    const [row = []] = await rowsOf(this.#connection, `SELECT ${tests.join(', ')} FROM ${from}`);
    return row;
  }

  async *rows(table: SourceTable, signal: AbortSignal): TextRows {
    const columns = this.#columns.get(table.name) ?? [];
    const sql = `SELECT ${columns.map(({ expression }) => expression).join(', ')} FROM ${this.#from(table.name)}`;
    let count = 0;
    const stream = await this.#failing(signal, () => this.#connection.stream(sql));
    for (;;) {
      const chunk = await this.#failing(signal, () => stream.fetchChunk());
      if (!chunk || chunk.rowCount === 0) break;
      count += chunk.rowCount;
      yield chunk.getRows().map((row) => row.map((value, i) => readAs(columns[i], value)));
    }
    // The engine ends a stream of rows that it cannot read like a complete one.
    await this.#failing(signal, () => this.#connection.run('SELECT 1'));
    if (count !== table.rowCount)
      throw new OperatorError(
        `${this.name} is damaged: only ${count} of the ${table.rowCount} rows of ${table.name} can be read`,
      );
  }

  async close(): Promise<void> {
    this.#connection.closeSync();
    this.#instance.closeSync();
  }

  #from(table: string): string {
    return `${quoteIdentifier(this.#schema)}.${quoteIdentifier(table)}`;
  }

  #rowsOf(sql: string, ...parameters: readonly string[]): Promise<readonly (readonly unknown[])[]> {
    return rowsOf(this.#connection, sql, [...parameters]);
  }

  async #failing<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      throw toOperatorError(this.name, error);
    }
  }
}

const ownDatabase = 'database_name = current_database()';
const tablesSql = `SELECT table_name, comment FROM duckdb_tables() WHERE ${ownDatabase} AND schema_name = $1 AND NOT internal AND NOT temporary ORDER BY table_name`;
const columnsSql = `SELECT column_name, data_type, is_nullable, column_default, comment FROM duckdb_columns() WHERE ${ownDatabase} AND schema_name = $1 AND table_name = $2 ORDER BY column_index`;
const constraintsSql = `SELECT constraint_type, to_json(constraint_column_names)::VARCHAR, constraint_text FROM duckdb_constraints() WHERE ${ownDatabase} AND schema_name = $1 AND table_name = $2 ORDER BY constraint_index`;

function toOperatorError(file: string, error: unknown): unknown {
  if (error instanceof OperatorError || !(error instanceof Error)) return error;
  const [message = ''] = error.message.split('\n', 1);
  const because = (text: string) => new OperatorError(`${file} ${text}`, { cause: error });
  if (/set lock|being used by another process/i.test(message))
    return because('is open in another process for writing: end it, or import a copy of the file');
  if (/encrypt/i.test(message)) return because('is encrypted: copy its tables into a file without encryption first');
  if (/replay|WAL/.test(message))
    return because('was not closed and has a log that is not in it yet: open it once with DuckDB, and close it');
  return because(`cannot be read, it may be damaged or of a newer version of DuckDB: ${message}`);
}
