// Binds a statement: replaces the names of tables by those in the file, and lets SQLite report what the statement uses. A statement that
// uses anything else than the tables that its text names, and known functions, is refused.
import { constants, type StatementSync } from 'node:sqlite';
import type { TableName } from '../../../../src/engines/port/refs.ts';
import type { StatementAnalysis } from '../../../../src/engines/port/statements.ts';
import type { LogicalType } from '../../../../src/model/types.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { parseJson } from '../../../../src/standard/json/parse_json.ts';
import { type Connection, fileName, type Namespace, type StoredTable, tableNamed } from './database.ts';
import { namedTables, quoted, requireOneStatement, sqlInvalid, tokensOf, withoutSemicolon } from './sql_text.ts';

/** A statement as it crosses the connection. `parameters`: JSON text. */
export interface StatementCall extends Namespace {
  readonly sql: string;
  readonly parameters?: string | undefined;
}

export interface BoundStatement {
  readonly sql: string;
  readonly statement: StatementSync;
  readonly analysis: StatementAnalysis;
  readonly columns: readonly { readonly name: string; readonly logical?: LogicalType }[];
}

/** Everything else is refused: a function may read files, or end the process. */
export const scalarFunctions: ReadonlySet<string> = new Set(
  (
    'abs ceil ceiling coalesce concat concat_ws date datetime floor format glob hex ifnull iif instr json json_array json_extract ' +
    'json_object json_type julianday length like lower ltrim max min mod nullif power printf quote random replace round rtrim sign ' +
    'sqrt strftime substr substring time trim typeof unhex unicode unixepoch upper'
  ).split(' '),
);
/** Over the rows of a group or window. */
export const groupFunctions: ReadonlySet<string> = new Set(
  (
    'avg count group_concat json_group_array json_group_object string_agg sum total row_number rank dense_rank percent_rank cume_dist ' +
    'ntile lag lead first_value last_value nth_value'
  ).split(' '),
);

/** What a statement did while it was prepared, by the tables of the file. */
class Usage {
  readonly reads = new Set<string>();
  readonly writes = new Map<string, Set<'insert' | 'update' | 'delete'>>();
  refused: Failure | undefined;
  readonly #named: ReadonlyMap<string, StoredTable>;

  constructor(named: ReadonlyMap<string, StoredTable>) {
    this.#named = named;
  }

  /** Called by SQLite. */
  authorize(action: number, first: string | null, second: string | null): number {
    switch (action) {
      case constants.SQLITE_SELECT:
      case constants.SQLITE_RECURSIVE:
        return constants.SQLITE_OK;
      case constants.SQLITE_READ:
        return this.#uses(first, () => this.reads.add(first as string));
      case constants.SQLITE_INSERT:
        return this.#writes(first, 'insert');
      case constants.SQLITE_UPDATE:
        return this.#writes(first, 'update');
      case constants.SQLITE_DELETE:
        return this.#writes(first, 'delete');
      case constants.SQLITE_FUNCTION: {
        const name = String(second).toLowerCase();
        // SQLite evaluates the constraints and defaults of a table that is written.
        if (scalarFunctions.has(name) || groupFunctions.has(name) || name === 'is_canonical')
          return constants.SQLITE_OK;
        return this.#refuse(
          new Failure('SQL_FORBIDDEN_FUNCTION', `the function ${name} cannot be used`, { function: name }),
        );
      }
      default:
        return this.#refuse(
          new Failure('SQL_NOT_SUPPORTED', 'only SELECT, INSERT, UPDATE and DELETE can be run as SQL'),
        );
    }
  }

  #writes(table: string | null, how: 'insert' | 'update' | 'delete'): number {
    return this.#uses(table, () => {
      const ways = this.writes.get(table as string) ?? new Set();
      this.writes.set(table as string, ways.add(how));
    });
  }

  #uses(table: string | null, note: () => void): number {
    if (table === null || !this.#named.has(table))
      return this.#refuse(sqlInvalid(`the table ${JSON.stringify(table)} does not exist`));
    note();
    return constants.SQLITE_OK;
  }

  #refuse(failure: Failure): number {
    this.refused ??= failure;
    return constants.SQLITE_DENY;
  }
}

/** Throws SQL_INVALID, SQL_NOT_SUPPORTED or SQL_FORBIDDEN_FUNCTION. */
export function bindStatement(on: Connection, call: StatementCall, prefix = ''): BoundStatement {
  requireOneStatement(call.sql);
  const { sql, tables } = withFileNames(on, call);
  const usage = new Usage(tables);
  on.db.setAuthorizer((action, first, second) => usage.authorize(action, first, second));
  try {
    const statement = on.db.prepare(sql);
    const columns = statement.columns().map(({ name, table, column }) => {
      const stored = table === null ? undefined : tables.get(table);
      const logical = stored?.definition.columns.find((defined) => defined.name === column)?.type;
      return { name, ...(logical === undefined ? {} : { logical }) };
    });
    const runs = prefix === '' ? statement : on.db.prepare(`${prefix} ${sql}`);
    return { sql, statement: runs, analysis: analysisOf(usage, tables), columns };
  } catch (error) {
    throw usage.refused ?? toSqlInvalid(error, tables);
  } finally {
    on.db.setAuthorizer(null);
  }
}

function withFileNames(on: Connection, call: StatementCall) {
  const tables = new Map<string, StoredTable>();
  let sql = '';
  let copiedTo = 0;
  for (const { parts, start, end, hasAlias } of namedTables(call.sql)) {
    const table = tableNamed(on, call, parts);
    if (!table) throw sqlInvalid(`the table ${parts.map((part) => JSON.stringify(part)).join('.')} does not exist`);
    tables.set(fileName(table.id), table);
    const alias = hasAlias ? '' : ` AS ${quoted(parts.at(-1) ?? '')}`;
    sql += call.sql.slice(copiedTo, start) + fileName(table.id) + alias;
    copiedTo = end;
  }
  return { sql: withoutSemicolon(sql + call.sql.slice(copiedTo)), tables };
}

function analysisOf(usage: Usage, tables: ReadonlyMap<string, StoredTable>): StatementAnalysis {
  const namesOf = (names: Iterable<string>): TableName[] => [...names].flatMap((name) => tables.get(name)?.name ?? []);
  const ways = new Set([...usage.writes.values()].flatMap((found) => [...found]));
  const [way = 'select'] = ways;
  const versions = [...tables.values()].map(({ id, version }) => [id, version] as const);
  return {
    kind: ways.size > 1 ? 'merge' : way,
    reads: namesOf(usage.reads),
    writes: namesOf(usage.writes.keys()),
    views: [],
    token: JSON.stringify(versions.sort(([id], [other]) => id - other)),
  };
}

/** An error of SQLite about a text, with the names of users. */
export function toSqlInvalid(error: unknown, tables: ReadonlyMap<string, StoredTable> = new Map()): unknown {
  if (!(error instanceof Error) || error instanceof Failure || !('errcode' in error)) return error;
  return sqlInvalid(error.message.replaceAll(/\bt_\d+\b/g, (name) => tables.get(name)?.name.table ?? name));
}

type Value = null | number | bigint | string;

/** The arguments with which a statement runs: named ones first, then those of `?`. */
export function argumentsOf({ sql, parameters }: StatementCall): [Record<string, Value>, ...Value[]] {
  const given: unknown = parameters === undefined ? [] : parseJson(parameters);
  const marks = tokensOf(sql).flatMap(({ text }) => (/^(?:\?|[$:@].)/.test(text) ? [text] : []));
  if (Array.isArray(given)) {
    const values = given.map(toValue);
    const numbered = new Set(marks.filter((mark) => mark !== '?'));
    const needed = marks.filter((mark) => mark === '?').length + numbered.size;
    if (needed !== values.length)
      throw new Failure('INVALID_PARAMETER', `the statement has ${needed} parameters, the request ${values.length}`);
    const named = [...numbered].map((mark): [string, Value] => [mark, values[Number(mark.slice(1)) - 1] ?? null]);
    return [Object.fromEntries(named), ...(numbered.size > 0 ? [] : values)];
  }
  const named = Object.entries(given as object).map(([name, value]): [string, Value] => [`$${name}`, toValue(value)]);
  return [Object.fromEntries(named)];
}

function toValue(value: unknown): Value {
  if (value === null || typeof value === 'string') return value;
  if (typeof value === 'boolean') return value ? 1n : 0n;
  if (JSON.isRawJSON(value)) return /^-?\d{1,18}$/.test(value.rawJSON) ? BigInt(value.rawJSON) : value.rawJSON;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  return JSON.stringify(value);
}
