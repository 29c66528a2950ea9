// The tables of users in the file: their DDL, their defaults, and the copy of a table into another definition.
import type { SQLOutputValue } from 'node:sqlite';
import type { Change } from '../../../../src/engines/port/changes.ts';
import type { ColumnDefinition, TableDefinition } from '../../../../src/model/records.ts';
import { formatType, type LogicalType } from '../../../../src/model/types.ts';
import { Fault } from '../../../../src/model/values/value_validation.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import type { Connection } from './database.ts';
import { quoted, requireEnclosed, sqlInvalid, tokensOf } from './sql_text.ts';
import { converted, declaredTypes, encode, fromText, isCanonical } from './values.ts';

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

function literalOf(stored: SQLOutputValue): string {
  if (stored === null) return 'NULL';
  if (typeof stored === 'string') return literal(stored);
  return stored instanceof Uint8Array ? `x'${Buffer.from(stored).toString('hex')}'` : String(stored);
}

/** An expression of a default as SQLite evaluates it for each row: constants in the canonical form of the type. */
export function defaultSql(on: Connection, expression: string, type: LogicalType): string {
  requireEnclosed(expression);
  const constant = on.db.prepare(`SELECT (${expression}\n)`);
  constant.setReadBigInts(true);
  constant.setReturnArrays(true);
  const [value = null] = constant.get() as unknown as SQLOutputValue[];
  const isCall = tokensOf(expression).some(({ text }) => text === '(');
  if (value === null || isCall) return `(${expression})`;
  if (isCanonical(formatType(type), value)) return literalOf(value);
  const read = value instanceof Uint8Array ? undefined : fromText(type, String(value));
  if (read === undefined || read instanceof Fault)
    throw sqlInvalid(`the default ${expression} is not a value of the type ${formatType(type)}`);
  return literalOf(encode(type, read));
}

function columnSql(on: Connection, { name, type, nullable, defaultValue }: ColumnDefinition): string {
  const column = quoted(name);
  const parts = [column, declaredTypes[type.kind]];
  if (!nullable) parts.push('NOT NULL');
  if (defaultValue !== undefined) parts.push(`DEFAULT ${defaultSql(on, defaultValue, type)}`);
  parts.push(`CHECK (is_canonical(${literal(formatType(type))}, ${column}))`);
  return parts.join(' ');
}

export function createFileTable(on: Connection, table: string, definition: TableDefinition): void {
  const columns = definition.columns.map((column) => columnSql(on, column));
  const keys = [definition.primaryKey, definition.uniqueKey].filter((key) => key.length > 0);
  const unique = keys.map((key) => `UNIQUE (${key.map(quoted).join(', ')})`);
  on.db.exec(`CREATE TABLE ${table} (${[...columns, ...unique].join(', ')})`);
}

type Alteration = Extract<Change, { readonly kind: 'alterTable' }>;

/** Copies the rows of a table into its new definition. Throws CONSTRAINT_VIOLATED, so that the transaction is rolled back. */
export function alterFileTable(on: Connection, table: string, { from, to, renamedColumns }: Alteration): void {
  const copy = `${table}_new`;
  createFileTable(on, copy, to);
  const oldNames = new Map(Object.entries(renamedColumns).map(([old, name]) => [name, old]));
  const pairs = to.columns.flatMap((column) => {
    const old = oldNames.get(column.name) ?? (Object.hasOwn(renamedColumns, column.name) ? undefined : column.name);
    const origin = from.columns.find(({ name }) => name === old);
    return origin ? [{ column, origin }] : [];
  });
  const names = (list: readonly ColumnDefinition[]) => list.map(({ name }) => quoted(name)).join(', ');
  const marks = pairs.map(() => '?').join(', ');
  const into =
    pairs.length === 0 ? 'DEFAULT VALUES' : `(${names(pairs.map(({ column }) => column))}) VALUES (${marks})`;
  const insert = on.db.prepare(`INSERT INTO ${copy} ${into}`);
  const read = on.db.prepare(`SELECT ${names(pairs.map(({ origin }) => origin)) || '1'} FROM ${table} ORDER BY rowid`);
  read.setReadBigInts(true);
  read.setReturnArrays(true);
  for (const row of read.iterate() as Iterable<unknown>) {
    const values = pairs.map(({ column, origin }, i) => {
      const value = converted(origin.type, column.type, (row as SQLOutputValue[])[i] as SQLOutputValue);
      if (value === undefined)
        throw violated(`a value of "${origin.name}" is not a value of ${formatType(column.type)}`);
      return value;
    });
    try {
      insert.run(...values);
    } catch (error) {
      throw violated(constraintText(error));
    }
  }
  on.db.exec(`DROP TABLE ${table}; ALTER TABLE ${copy} RENAME TO ${table}`);
}

const violated = (message: string) => new Failure('CONSTRAINT_VIOLATED', message);

/** The message of a failed constraint with the names of users; other errors are thrown. */
export function constraintText(error: unknown): string {
  if (!(error instanceof Error) || !/constraint failed/.test(error.message)) throw error;
  const [, kind = '', columns = ''] = /^(\w+(?: \w+)?) constraint failed: (.*)$/s.exec(error.message) ?? [];
  const names = columns.replaceAll(/\bt_\d+(?:_new)?\./g, '');
  if (kind === 'UNIQUE') return `a row with the same key (${names}) exists already`;
  if (kind === 'NOT NULL') return `the column "${names}" is not nullable`;
  const checked = /is_canonical\('((?:[^']|'')*)', "((?:[^"]|"")*)"\)/.exec(columns);
  return checked ? `a value of the column "${checked[2]}" is not a value of ${checked[1]}` : 'a constraint is violated';
}
