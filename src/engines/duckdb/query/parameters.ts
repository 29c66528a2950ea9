// Binds the parameters of a statement: converts JSON values to the engine's, by position or by name, each to the type that the statement
// expects, if it expects one.
import {
  BIGINT,
  DOUBLE,
  type DuckDBConnection,
  DuckDBDecimalValue,
  DuckDBListValue,
  type DuckDBPreparedStatement,
  type DuckDBType,
  DuckDBTypeId,
  type DuckDBValue,
  HUGEINT,
  INTEGER,
  LIST,
  listValue,
  SMALLINT,
  SQLNULL,
  structValue,
} from '@duckdb/node-api';
import { Failure } from '../../../standard/failure.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';
import { quoteIdentifier } from '../sql/identifiers.ts';

/** Throws PARAMETERS_INVALID. `json`: an array or an object, undefined for none. */
export async function bindParameters(
  statement: DuckDBPreparedStatement,
  json: string | undefined,
  connection: DuckDBConnection,
): Promise<void> {
  const count = statement.parameterCount;
  const parsed =
    json === undefined ? undefined : (parseJson(json) as readonly unknown[] | Readonly<Record<string, unknown>>);
  if (count === 0 && (parsed === undefined || Object.keys(parsed).length === 0)) return;
  const names = namesOf(statement);
  const values = valuesByName(names, parsed);
  statement.clearBindings();
  for (const [i, value] of values.entries()) {
    const index = i + 1;
    const converted = await castToExpected(toValue(value, names[i] as string), statement, index, connection);
    try {
      if (converted === null) statement.bindNull(index);
      else bind(statement, index, converted);
    } catch (error) {
      const shown = JSON.stringify(names[i]);
      const message = `the value of the parameter ${shown} has no type that the engine supports: ${(error as Error).message}`;
      throw new Failure('PARAMETERS_INVALID', message, { parameters: names }, { cause: error });
    }
  }
}

const wholeTypes: ReadonlyMap<DuckDBTypeId, readonly [DuckDBType, number]> = new Map([
  [DuckDBTypeId.SMALLINT, [SMALLINT, 15]],
  [DuckDBTypeId.INTEGER, [INTEGER, 31]],
  [DuckDBTypeId.BIGINT, [BIGINT, 63]],
  [DuckDBTypeId.HUGEINT, [HUGEINT, 127]],
]);

/** Binds a number with the expected type if that type can hold it: with another type the engine plans the statement again at each run. */
function bind(statement: DuckDBPreparedStatement, index: number, value: DuckDBValue): void {
  const isInteger = typeof value === 'bigint' || (typeof value === 'number' && isSmall(value));
  const expectedId = isInteger || typeof value === 'number' ? statement.parameterTypeId(index) : undefined;
  const [type, bits] = (isInteger && expectedId !== undefined && wholeTypes.get(expectedId)) || [];
  if (type && bits !== undefined) {
    const exact = BigInt(value as number | bigint);
    if (exact >= -(2n ** BigInt(bits)) && exact < 2n ** BigInt(bits)) {
      statement.bindValue(index, bits < 63 ? Number(exact) : exact, type);
      return;
    }
  }
  const isDouble = expectedId === DuckDBTypeId.DOUBLE && typeof value === 'number';
  statement.bindValue(index, value, isDouble ? DOUBLE : typeOf(value));
}

/** Undefined if the driver may choose the type; the driver checks only the first item of a list, and no number's size. */
function typeOf(value: DuckDBValue): DuckDBType | undefined {
  if (typeof value === 'bigint') return value < -(2n ** 63n) || value >= 2n ** 63n ? HUGEINT : BIGINT;
  if (typeof value === 'number') return isSmall(value) ? INTEGER : DOUBLE;
  if (!(value instanceof DuckDBListValue)) return undefined;
  const items = value.items.filter((item) => item !== null);
  if (items.length === 0) return LIST(SQLNULL);
  const types = items.map(typeOf);
  const numeric = types.every((type) => type === DOUBLE || type === HUGEINT || type === BIGINT || type === INTEGER);
  const widest = [DOUBLE, HUGEINT, BIGINT, INTEGER].find((type) => types.includes(type));
  return numeric && widest ? LIST(widest) : undefined;
}

const isSmall = (value: number) => Number.isInteger(value) && Math.abs(value) < 2 ** 31 && !Object.is(value, -0);

/** The numbers of a list get one type: exact if all are integers, else DOUBLE. */
function listOf(items: readonly DuckDBValue[]): DuckDBValue {
  const numbers = items.filter((item) => item !== null);
  const isNumber = (item: DuckDBValue) =>
    typeof item === 'number' || typeof item === 'bigint' || item instanceof DuckDBDecimalValue;
  const isInteger = (item: DuckDBValue) => typeof item === 'bigint' || (typeof item === 'number' && isSmall(item));
  if (!numbers.every(isNumber) || numbers.every(isInteger)) return listValue(items);
  return listValue(items.map((item) => (item === null ? null : Number(String(item)))));
}

function namesOf(statement: DuckDBPreparedStatement): string[] {
  try {
    return Array.from({ length: statement.parameterCount }, (_, i) => statement.parameterName(i + 1));
  } catch (error) {
    // $2 without $1 is counted, but cannot be accessed.
    throw new Failure(
      'PARAMETERS_INVALID',
      'the parameters must be numbered $1, $2, ... without gaps',
      {},
      { cause: error },
    );
  }
}

/** Maps a placeholder (`?` in their order, `$1`, `$name`) to the type of its value, for statements that do not determine the type. */
export function parameterTypes(json: string | undefined): (placeholder: string) => string {
  const values = json === undefined ? [] : (parseJson(json) as readonly unknown[] | Readonly<Record<string, unknown>>);
  let next = 0;
  return (placeholder) => {
    const name = placeholder === '?' ? String(++next) : placeholder.slice(1);
    const value = Array.isArray(values)
      ? values[Number(name) - 1]
      : Object.entries(values).find(([key]) => key.toLowerCase() === name.toLowerCase())?.[1];
    return typeOfValue(value);
  };
}

function typeOfValue(value: unknown): string {
  if (typeof value === 'boolean') return 'BOOLEAN';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'BIGINT' : 'DOUBLE';
  if (JSON.isRawJSON(value)) return /^-?\d+$/.test(value.rawJSON) ? 'HUGEINT' : 'DOUBLE';
  if (Array.isArray(value)) return `${typeOfValue(value.find((item) => item !== null))}[]`;
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).map(
      ([key, fieldValue]) => `${quoteIdentifier(key)} ${typeOfValue(fieldValue)}`,
    );
    return fields.length === 0 ? 'VARCHAR' : `STRUCT(${fields.join(', ')})`;
  }
  return 'VARCHAR';
}

function valuesByName(
  names: readonly string[],
  supplied: readonly unknown[] | Readonly<Record<string, unknown>> | undefined,
): unknown[] {
  const positional = names.every((name) => /^\d+$/.test(name));
  const wrong = (message: string) => new Failure('PARAMETERS_INVALID', message, { parameters: names });
  if (supplied === undefined) throw wrong(`the statement has ${names.length} parameters, but the request has none`);
  if (Array.isArray(supplied)) {
    if (!positional && names.length > 0)
      throw wrong(`the statement has named parameters (${names.join(', ')}); send them as an object`);
    if (supplied.length !== names.length)
      throw wrong(`the statement has ${names.length} parameters, but the request has ${supplied.length}`);
    return names.map((name) => supplied[Number(name) - 1]);
  }
  const byName = supplied as Readonly<Record<string, unknown>>;
  const unused = new Map(Object.keys(byName).map((name) => [name.toLowerCase(), name]));
  const values = names.map((name) => {
    const key = unused.get(name.toLowerCase());
    if (key === undefined) throw wrong(`the parameter ${JSON.stringify(name)} has no value`);
    unused.delete(name.toLowerCase());
    return byName[key];
  });
  const [extra] = unused.values();
  if (extra !== undefined) throw wrong(`the statement has no parameter ${JSON.stringify(extra)}`);
  return values;
}

function toValue(value: unknown, name: string): DuckDBValue {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number')
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? integer(BigInt(value)) : value;
  if (JSON.isRawJSON(value)) return exactNumber(value.rawJSON, name);
  if (Array.isArray(value)) return listOf(value.map((item) => toValue(item, name)));
  return structValue(
    Object.fromEntries(Object.entries(value as object).map(([key, one]) => [key, toValue(one, name)])),
  );
}

/** Small integers are bound as INTEGER, so that an INTEGER column need not be widened for a comparison. */
function integer(value: bigint): DuckDBValue {
  return value >= -(2n ** 31n) && value < 2n ** 31n ? Number(value) : value;
}

function exactNumber(text: string, name: string): DuckDBValue {
  const tooWide = () =>
    new Failure(
      'PARAMETERS_INVALID',
      `the parameter ${JSON.stringify(name)} is a number that no type can hold exactly`,
    );
  if (/^-?\d+$/.test(text)) {
    const value = BigInt(text);
    if (value < -(2n ** 127n) || value >= 2n ** 127n) throw tooWide();
    return value;
  }
  const [, sign, whole, fraction] = /^(-?)(\d+)\.(\d+)$/.exec(text) ?? [];
  if (whole === undefined || fraction === undefined) {
    const value = Number(text);
    if (!Number.isFinite(value)) throw tooWide();
    return value;
  }
  const digits = BigInt(`${sign}${whole}${fraction}`);
  const width = Math.max(whole.replace(/^0+/, '').length + fraction.length, 1);
  if (width > 38) throw tooWide();
  return new DuckDBDecimalValue(digits, 38, fraction.length);
}

const acceptsText: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.INVALID,
  DuckDBTypeId.VARCHAR,
  DuckDBTypeId.ANY,
  DuckDBTypeId.SQLNULL,
]);

/** A string for a parameter of another type is cast as in SQL: '2026-01-31' if a DATE is expected. */
async function castToExpected(
  value: DuckDBValue,
  statement: DuckDBPreparedStatement,
  index: number,
  connection: DuckDBConnection,
): Promise<DuckDBValue> {
  if (typeof value !== 'string' || acceptsText.has(statement.parameterTypeId(index))) return value;
  const type = String(statement.parameterType(index));
  const [row] = (await connection.runAndReadAll(`SELECT CAST($1::VARCHAR AS ${type})`, [value])).getRows();
  return row?.[0] ?? null;
}
