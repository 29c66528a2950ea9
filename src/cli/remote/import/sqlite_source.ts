// A SQLite file as the source of an import: read only, in one transaction.
import { isUtf8 } from 'node:buffer';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import type {
  ImportSource,
  NotCarried,
  SourceColumn,
  SourceDatabase,
  SourceOptions,
  SourceTable,
  SourceView,
  TextRows,
} from '../../../model/import_source.ts';
import { sqlIdentifier } from '../../../model/names.ts';
import { OperatorError } from '../../../operator/operator_error.ts';
import { type ChosenType, chooseType, decimalOf, type ValueCounts } from './sqlite_columns.ts';

const batchBytes = 4 * 1024 * 1024;
const batchRowsMax = 2000;
const busyMs = 5000;
const datePattern = '[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]';
const timePattern = '[ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9]';
/** Literals that mean the same on every engine. */
const literal = /^([+-]?\d+(\.\d+)?|'[^']*'|true|false|current_timestamp)$/i;

type Row = Readonly<Record<string, SQLOutputValue>>;

/** Throws OperatorError. */
export async function openSqliteSource(file: string, options: SourceOptions): Promise<ImportSource> {
  if (options.schema !== undefined) throw new OperatorError('a SQLite file has no schemas: omit --schema');
  return failing(file, () => new SqliteSource(file, options));
}

function failing<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof OperatorError || !(error instanceof Error)) throw error;
    const { errcode } = error as { readonly errcode?: number };
    const because = (text: string) => new OperatorError(`${file} ${text}`, { cause: error });
    const primary = (errcode ?? 0) & 0xff;
    if (primary === 5 || primary === 6)
      throw because('is locked by another process: end it, or import a copy of the file');
    if (primary === 11) throw because(`is damaged: ${error.message}`);
    if (primary === 26) throw because('is no SQLite file, or is encrypted: import a copy without encryption');
    if (errcode === undefined) throw error;
    throw because(`cannot be read: ${error.message}`);
  }
}

class SqliteSource implements ImportSource {
  readonly name: string;
  readonly #db: DatabaseSync;
  readonly #only: readonly string[] | undefined;
  readonly #chosen = new Map<string, readonly ChosenType[]>();

  constructor(file: string, { tables }: SourceOptions) {
    this.name = file;
    this.#only = tables;
    this.#db = new DatabaseSync(file, { readOnly: true, timeout: busyMs, readBigInts: true });
    this.#db.function('is_utf8', { deterministic: true }, (value) =>
      value instanceof Uint8Array && !isUtf8(value) ? 0 : 1,
    );
    // The first statement that reads begins the snapshot, and finds what is no database.
    this.#db.exec('BEGIN; PRAGMA schema_version; SELECT count(*) FROM sqlite_master');
  }

  async read(signal: AbortSignal): Promise<SourceDatabase> {
    return failing(this.name, () => {
      const notCarried: NotCarried[] = [];
      const tables: SourceTable[] = [];
      const views: SourceView[] = [];
      for (const { type, name, tbl_name: of, sql } of this.#all(objectsSql)) {
        signal.throwIfAborted();
        const [object, text] = [String(name), String(sql ?? '')];
        if (this.#only && !this.#only.includes(String(of))) continue;
        if (type === 'table' && /^\s*CREATE\s+VIRTUAL/i.test(text))
          notCarried.push({ object, kind: 'virtual table', text: 'is not copied' });
        else if (type === 'table') tables.push(this.#table(object, text, notCarried));
        else if (type === 'view' && !this.#only) views.push({ name: object, sql: queryOf(text) });
        else if (type === 'index')
          notCarried.push({ object, kind: 'index', text: 'is not needed: queries read only what can match' });
        else if (type === 'trigger') notCarried.push({ object, kind: 'trigger', text: 'there are no triggers' });
      }
      return { tables, views, notCarried };
    });
  }

  #all(sql: string, ...values: readonly string[]): Row[] {
    return this.#db.prepare(sql).all(...values);
  }

  #table(name: string, sql: string, notCarried: NotCarried[]): SourceTable {
    const found = this.#all('SELECT * FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid', name);
    const counts = this.#counts(name, found);
    const chosen = found.map((column, i) => chooseType(String(column.type), counts.columns[i] as ValueCounts));
    this.#chosen.set(name, chosen);
    const columns = found.map((column, i) => columnOf(name, column, chosen[i] as ChosenType, notCarried));
    const primaryKey = found
      .filter(({ pk }) => Number(pk) > 0)
      .sort((a, b) => Number(a.pk) - Number(b.pk))
      .map((column) => String(column.name));
    const [uniqueKey = [], ...moreKeys] = this.#uniqueKeys(name);
    for (const names of moreKeys)
      notCarried.push({ object: name, kind: 'unique key', text: `a table has one unique key: (${names.join(', ')})` });
    for (const { from, table, to } of this.#all('SELECT * FROM pragma_foreign_key_list(?)', name))
      notCarried.push({
        object: `${name}.${from}`,
        kind: 'foreign key',
        text: `is not enforced: to ${table}.${to ?? 'its primary key'}`,
      });
    if (/\bCHECK\s*\(/i.test(sql))
      notCarried.push({ object: name, kind: 'check', text: 'its checks are not enforced' });
    if (/\bAUTOINCREMENT\b/i.test(sql))
      notCarried.push({ object: name, kind: 'sequence', text: 'its key is not generated: give a value' });
    return { name, columns, primaryKey, uniqueKey, rowCount: counts.rows };
  }

  #uniqueKeys(table: string): string[][] {
    const indexes = this.#all(`SELECT name FROM pragma_index_list(?) WHERE origin = 'u' ORDER BY name`, table);
    return indexes.map((index) =>
      this.#all('SELECT name FROM pragma_index_info(?) ORDER BY seqno', String(index.name)).map((column) =>
        String(column.name),
      ),
    );
  }

  #counts(table: string, columns: readonly Row[]): { rows: number; columns: ValueCounts[] } {
    const selected = columns.map((column, i) => countsSql(sqlIdentifier(String(column.name)), String(column.type), i));
    const [row = {}] = this.#all(`SELECT ${['count(*) AS n', ...selected].join(', ')} FROM ${sqlIdentifier(table)}`);
    const countsOf = (i: number) =>
      Object.fromEntries(countNames.map((name) => [name, Number(row[`${name}_${i}`] ?? 0)])) as unknown as ValueCounts;
    return { rows: Number(row.n), columns: columns.map((_, i) => countsOf(i)) };
  }

  async *rows(table: SourceTable, signal: AbortSignal): TextRows {
    const chosen = this.#chosen.get(table.name) ?? [];
    // Texts are read as bytes, because node:sqlite replaces what is not UTF-8.
    const values = table.columns.map(({ name }, i) => {
      const column = sqlIdentifier(name);
      return chosen[i]?.type.kind === 'BINARY' ? `CAST(${column} AS BLOB)` : column;
    });
    const rows = failing(this.name, () =>
      this.#db
        .prepare(`SELECT ${values.map((value, i) => `${value} AS c${i}`).join(', ')} FROM ${sqlIdentifier(table.name)}`)
        .iterate(),
    );
    let batch: (string | null)[][] = [];
    let characters = 0;
    for (;;) {
      const next = failing(this.name, () => rows.next());
      if (next.done) break;
      const row = chosen.map(({ write }, i) => {
        const value = next.value[`c${i}`] ?? null;
        return value === null ? null : write(value);
      });
      batch.push(row);
      characters += row.reduce((sum, text) => sum + (text?.length ?? 0), 0);
      if (batch.length < batchRowsMax && characters < batchBytes) continue;
      yield batch;
      signal.throwIfAborted();
      [batch, characters] = [[], 0];
    }
    yield batch;
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

const objectsSql = `SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name`;

const countNames: readonly (keyof ValueCounts)[] = [
  'integers',
  'reals',
  'texts',
  'blobs',
  'wideIntegers',
  'brokenTexts',
  'notBoolean',
  'notDate',
  'notDatetime',
  'notJson',
  'notDecimal',
];

function countsSql(column: string, declared: string, i: number): string {
  const kind = `typeof(${column})`;
  const isNumber = `${kind} IN ('integer', 'real')`;
  const decimal = decimalOf(declared);
  const { precision, scale } = decimal ?? { precision: 0, scale: 0 };
  const isTime = `${column} GLOB '${datePattern}${timePattern}' OR ${column} GLOB '${datePattern}${timePattern}.[0-9]*' AND length(${column}) <= 26 AND substr(${column}, 21) NOT GLOB '*[^0-9]*'`;
  const conditions: Readonly<Record<keyof ValueCounts, string>> = {
    integers: `${kind} = 'integer'`,
    reals: `${kind} = 'real'`,
    texts: `${kind} = 'text'`,
    blobs: `${kind} = 'blob'`,
    wideIntegers: `${kind} = 'integer' AND abs(${column} / 2) > 4503599627370495`,
    brokenTexts: `${kind} = 'text' AND is_utf8(CAST(${column} AS BLOB)) = 0`,
    notBoolean: `${kind} <> 'integer' OR ${column} NOT IN (0, 1)`,
    notDate: `NOT (${column} GLOB '${datePattern}') OR date(${column}) IS NOT ${column}`,
    notDatetime: `NOT (${isTime}) OR date(${column}) IS NOT substr(${column}, 1, 10) OR substr(${column}, 12, 2) > '23'`,
    notJson: `${kind} <> 'text' OR NOT json_valid(${column})`,
    notDecimal:
      decimal === undefined
        ? '0'
        : `NOT (${isNumber}) OR abs(${column}) >= 1e${precision - scale} OR CAST(printf('%.${scale}f', ${column}) AS REAL) <> ${column}`,
  };
  return countNames.map((name) => `sum(${column} IS NOT NULL AND (${conditions[name]})) AS ${name}_${i}`).join(', ');
}

function columnOf(
  table: string,
  { name, type: declared, notnull, dflt_value: defaultText, hidden }: Row,
  { type, reason }: ChosenType,
  notCarried: NotCarried[],
): SourceColumn {
  const object = `${table}.${name}`;
  if (reason !== undefined)
    notCarried.push({ object, kind: 'type', text: `${declared || 'no type'} becomes ${type.kind}: ${reason}` });
  if (Number(hidden) > 0)
    notCarried.push({ object, kind: 'generated column', text: 'has its values, and is not computed any more' });
  const written = defaultText === null || defaultText === undefined ? undefined : String(defaultText);
  const defaultValue = written !== undefined && literal.test(written) ? written : undefined;
  if (written !== undefined && defaultValue === undefined && written.toUpperCase() !== 'NULL')
    notCarried.push({ object, kind: 'default', text: `has no default: ${written}` });
  return { name: String(name), type, nullable: Number(notnull) === 0, defaultValue };
}

const viewHead =
  /^\s*CREATE\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|[^\s(]+)\s*(\([^)]*\))?\s*AS\s+/i;

function queryOf(sql: string): string {
  const [head = '', columns] = viewHead.exec(sql) ?? [];
  const query = sql.slice(head.length).replace(/;\s*$/, '');
  return columns === undefined ? query : `SELECT * FROM (${query}) AS named${columns}`;
}
