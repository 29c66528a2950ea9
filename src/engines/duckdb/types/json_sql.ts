// For each DuckDB type, the SQL expression that writes a value as JSON text (rest-standard B7). Total: a type that is not
// named here is written as the JSON string of its own text. The expressions depend on no session setting.
import { quoteLiteral } from '../sql/identifiers.ts';
import { type EngineType, parseEngineType } from './type_parser.ts';

export type NumbersForm = 'number' | 'string';

/** @returns a VARCHAR expression that is never NULL: the JSON text of `expression`, `null` for NULL. */
export function jsonExpression(duckdbTypeText: string, expression: string, numbers: NumbersForm): string {
  return write(parseEngineType(duckdbTypeText), expression, { numbers, depth: 0 });
}

interface Context {
  readonly numbers: NumbersForm;
  /** Names the lambda parameters of nested lists apart. */
  readonly depth: number;
}
type ScalarWriter = (x: string, context: Context) => string;

const orNull = (text: string): string => `coalesce(${text}, 'null')`;
/** Measured: concat casts and joins in one pass, where `||` makes a string for each step. */
const between = (x: string, text: string): string =>
  `CASE WHEN ${x} IS NULL THEN 'null' ELSE concat('"', ${text}, '"') END`;
const plain: ScalarWriter = (x) => orNull(`${x}::VARCHAR`);
const quoted: ScalarWriter = (x) => between(x, `${x}::VARCHAR`);
const escaped: ScalarWriter = (x) => orNull(`to_json(${x}::VARCHAR)::VARCHAR`);
const wide: ScalarWriter = (x, context) => (context.numbers === 'string' ? quoted(x, context) : plain(x, context));

/** DuckDB writes a decimal that is all fraction without the zero before the point, which JSON asks for. */
const fraction: ScalarWriter = (x, { numbers }) => {
  const mark = numbers === 'string' ? '"' : '';
  const text = `CASE WHEN ${x} < 0 THEN replace(${x}::VARCHAR, '-', '-0') ELSE concat('0', ${x}::VARCHAR) END`;
  return `CASE WHEN ${x} IS NULL THEN 'null' ELSE concat('${mark}', ${text}, '${mark}') END`;
};

/** to_json writes a DOUBLE twice as fast as a cast, but widens a FLOAT first: 0.1 would become 0.10000000149011612. */
const float =
  (finite: (x: string) => string): ScalarWriter =>
  (x) =>
    `CASE WHEN isfinite(${x}) THEN ${finite(x)} WHEN isnan(${x}) THEN '"NaN"' ` +
    `WHEN ${x} > 0 THEN '"Infinity"' WHEN ${x} < 0 THEN '"-Infinity"' ELSE 'null' END`;

/** Date and time are cast apart, which is faster than to put a T into the whole. What is not finite is "infinity" or "-infinity". */
const datetimeText = (x: string, finite: string, zone: string): string =>
  `CASE WHEN isfinite(${x}) THEN concat('"', ${finite}::DATE, 'T', ${finite}::TIME, '${zone}"') ` +
  `ELSE coalesce('"' || ${x}::VARCHAR || '"', 'null') END`;
const datetime: ScalarWriter = (x) => datetimeText(x, x, '');
const datetimeNs: ScalarWriter = (x) => between(x, `replace(replace(${x}::VARCHAR, ' ', 'T'), 'T(', ' (')`);
/** By way of its microseconds: the time zone of the session plays no part, and it is three times as fast as timezone(). */
const timestamp: ScalarWriter = (x) => datetimeText(x, `make_timestamp(epoch_us(${x}))`, 'Z');

/**
 * DuckDB's JSON may hold what is none: trailing commas, NaN, Infinity; and line breaks, which the pages of a result are cut
 * at. Almost none does, so one test for all comes first. What cannot be mended is written as a string.
 */
const json: ScalarWriter = (x) => {
  const text = `${x}::VARCHAR`;
  const outsideStrings = `regexp_replace(${text}, '"(?:[^"\\\\]|\\\\.)*"', '""', 'g')`;
  const notNumbers = '(?:^|[\\[,:-])\\s*(?i:nan|inf)';
  const trailingComma = ',\\s*[\\]}]';
  return (
    `CASE WHEN NOT regexp_matches(${text}, '${notNumbers}|${trailingComma}|[\\n\\r]') THEN ${text} ` +
    `WHEN ${x} IS NULL THEN 'null' ` +
    `WHEN regexp_matches(${outsideStrings}, '${notNumbers}') THEN to_json(${text})::VARCHAR ` +
    `WHEN regexp_matches(${outsideStrings}, '${trailingComma}') THEN json(${text})::VARCHAR ` +
    `ELSE replace(replace(${text}, chr(10), ' '), chr(13), ' ') END`
  );
};

const scalars: Readonly<Record<string, ScalarWriter>> = {
  BOOLEAN: plain,
  TINYINT: plain,
  SMALLINT: plain,
  INTEGER: plain,
  UTINYINT: plain,
  USMALLINT: plain,
  UINTEGER: plain,
  BIGINT: wide,
  UBIGINT: wide,
  HUGEINT: wide,
  UHUGEINT: wide,
  BIGNUM: wide,
  FLOAT: float((x) => `${x}::VARCHAR`),
  DOUBLE: float((x) => `to_json(${x})::VARCHAR`),
  DATE: quoted,
  TIME: quoted,
  'TIME WITH TIME ZONE': quoted,
  TIME_NS: quoted,
  TIMESTAMP: datetime,
  TIMESTAMP_S: datetime,
  TIMESTAMP_MS: datetime,
  TIMESTAMP_NS: datetimeNs,
  'TIMESTAMP WITH TIME ZONE': timestamp,
  TIMESTAMPTZ: timestamp,
  INTERVAL: quoted,
  BIT: quoted,
  UUID: quoted,
  VARCHAR: (x) => orNull(`to_json(${x})::VARCHAR`),
  BLOB: (x) => between(x, `to_base64(${x})`),
  JSON: json,
  VARIANT: (x, context) => json(`(${x}::JSON)`, context),
  NULL: () => `'null'`,
  SQLNULL: () => `'null'`,
};

function write(type: EngineType, x: string, context: Context): string {
  if (writtenByEngine(type, context.numbers)) {
    return orNull(`to_json(${type.kind === 'map' ? `map_entries(${x})` : x})::VARCHAR`);
  }
  switch (type.kind) {
    case 'scalar':
      return (Object.hasOwn(scalars, type.name) ? scalars[type.name]! : escaped)(x, context);
    case 'decimal':
      return type.precision === type.scale ? fraction(x, context) : wide(x, context);
    case 'list': {
      const e = `e${context.depth}`;
      return whole(x, `'[' || ${each(x, e, write(type.element, e, inner(context)))} || ']'`);
    }
    case 'map': {
      const e = `e${context.depth}`;
      const key = write(type.key, `${e}.key`, inner(context));
      const value = write(type.value, `${e}.value`, inner(context));
      return whole(
        x,
        `'[' || ${each(`map_entries(${x})`, e, `'{"key":' || ${key} || ',"value":' || ${value} || '}'`)} || ']'`,
      );
    }
    case 'struct':
      return whole(x, writeStruct(type.fields, x, context));
    case 'union': {
      const members = type.members.map(({ name = '', type: member }) => {
        const value = `union_extract(${x}, ${quoteLiteral(name)})`;
        return `WHEN ${quoteLiteral(name)} THEN ${write(member, value, context)}`;
      });
      return `CASE union_tag(${x})::VARCHAR ${members.join(' ')} ELSE 'null' END`;
    }
  }
}

const whole = (x: string, text: string): string => `CASE WHEN ${x} IS NULL THEN 'null' ELSE ${text} END`;
const inner = (context: Context): Context => ({ ...context, depth: context.depth + 1 });
const each = (list: string, e: string, text: string): string =>
  `array_to_string(list_transform(${list}, lambda ${e}: ${text}), ',')`;

/** A struct is an object; a row(...), whose fields have no names, is an array. */
function writeStruct(
  fields: readonly { readonly name?: string; readonly type: EngineType }[],
  x: string,
  context: Context,
): string {
  const parts = fields.map(({ name, type }, i) =>
    name === undefined
      ? write(type, `struct_extract(${x}, ${i + 1})`, context)
      : `${quoteLiteral(`${JSON.stringify(name)}:`)} || ${write(type, `struct_extract(${x}, ${quoteLiteral(name)})`, context)}`,
  );
  const [open, close] = fields.some((f) => f.name === undefined) ? ['[', ']'] : ['{', '}'];
  return `'${open}' || ${parts.join(` || ',' || `)} || '${close}'`;
}

/** Scalars inside a list or struct that DuckDB's own to_json writes as we would. */
const engineScalars = new Set(
  'BOOLEAN TINYINT SMALLINT INTEGER UTINYINT USMALLINT UINTEGER BIGINT UBIGINT HUGEINT VARCHAR DATE UUID TIME'.split(
    ' ',
  ),
);
const wideScalars = new Set(['BIGINT', 'UBIGINT', 'HUGEINT']);

/** Whether a nested type can be left to to_json whole, which is many times faster than a lambda. */
function writtenByEngine(type: EngineType, numbers: NumbersForm): boolean {
  const leaf = (t: EngineType): boolean => {
    if (t.kind === 'scalar') return engineScalars.has(t.name) && !(numbers === 'string' && wideScalars.has(t.name));
    if (t.kind === 'list') return leaf(t.element);
    return t.kind === 'struct' && t.fields.every((f) => f.name !== undefined && leaf(f.type));
  };
  // A map is a list of entries to us, but an object to to_json: only the outermost can be turned.
  if (type.kind === 'map') return leaf(type.key) && leaf(type.value);
  return (type.kind === 'list' || type.kind === 'struct') && leaf(type);
}
