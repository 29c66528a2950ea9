// Expressions of a load over the columns of its file: SQLite computes them for each row, and they can use nothing but the row.
import { constants, type SQLOutputValue } from 'node:sqlite';
import { foldName } from '../../../../src/model/names.ts';
import { Fault } from '../../../../src/model/values/value_validation.ts';
import { Failure, invalidParameter } from '../../../../src/standard/failure.ts';
import { groupFunctions, scalarFunctions } from './bound_statement.ts';
import type { Connection } from './database.ts';
import { hasParameters, quoted, requireEnclosed } from './sql_text.ts';

export interface CompiledExpressions {
  /** Takes the values of the row by the folded names of the columns. */
  run(values: ReadonlyMap<string, unknown>): readonly unknown[] | Fault;
}

interface Expression {
  readonly expression: string;
  readonly pointer: string;
}

/** Throws INVALID_PARAMETER or SQL_FORBIDDEN_FUNCTION. */
export function compileExpressions(
  on: Connection,
  expressions: readonly Expression[],
  columns: readonly string[],
): CompiledExpressions | undefined {
  if (expressions.length === 0) return undefined;
  const row = columns.map((name) => `? AS ${quoted(name)}`).join(', ');
  for (const { expression, pointer } of expressions) {
    try {
      compile(on, [expression], row);
    } catch (error) {
      if (error instanceof Failure && error.code === 'SQL_FORBIDDEN_FUNCTION') throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw invalidParameter(pointer, 'expression', `is not an expression over the columns of the file: ${reason}`);
    }
  }
  const texts = expressions.map(({ expression }) => expression);
  const statement = compile(on, texts, row);
  const folded = columns.map(foldName);
  return {
    run(values) {
      try {
        return (statement.get(...folded.map((name) => toValue(values.get(name)))) as unknown as SQLOutputValue[]).map(
          fromValue,
        );
      } catch (error) {
        return new Fault('expression', error instanceof Error ? error.message : String(error));
      }
    },
  };
}

function compile(on: Connection, expressions: readonly string[], row: string) {
  for (const expression of expressions) {
    requireEnclosed(expression);
    if (hasParameters(expression)) throw new Error('it has parameters');
  }
  let queries = 0;
  let refused: Failure | undefined;
  on.db.setAuthorizer((action, first, second) => {
    if (action === constants.SQLITE_SELECT) return ++queries > 2 ? constants.SQLITE_DENY : constants.SQLITE_OK;
    // The columns of the row.
    if (action === constants.SQLITE_READ) return first === 'file' ? constants.SQLITE_OK : constants.SQLITE_DENY;
    const name = String(second).toLowerCase();
    if (action !== constants.SQLITE_FUNCTION) return constants.SQLITE_DENY;
    if (scalarFunctions.has(name)) return constants.SQLITE_OK;
    if (!groupFunctions.has(name))
      refused = new Failure('SQL_FORBIDDEN_FUNCTION', `the function ${name} cannot be used`, { function: name });
    return constants.SQLITE_DENY;
  });
  try {
    const texts = expressions.map((expression) => `(${expression}\n)`).join(', ');
    const statement = on.db.prepare(`SELECT ${texts} FROM (SELECT ${row}) AS file`);
    if (statement.columns().length !== expressions.length) throw new Error('it is not a single value');
    statement.setReadBigInts(true);
    statement.setReturnArrays(true);
    return statement;
  } catch (error) {
    throw refused ?? error;
  } finally {
    on.db.setAuthorizer(null);
  }
}

function toValue(value: unknown): null | number | bigint | string {
  if (value === undefined || value === null) return null;
  if (typeof value === 'boolean') return value ? 1n : 0n;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (JSON.isRawJSON(value)) return value.rawJSON;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** As a value of a row of JSON. */
function fromValue(value: SQLOutputValue): unknown {
  if (typeof value === 'bigint') return JSON.rawJSON(String(value));
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}
