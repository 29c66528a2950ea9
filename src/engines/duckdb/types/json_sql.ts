// For each DuckDB type, the SQL expression that writes a value as JSON text (rest-standard B7). Total: a value of an unlisted type
// is written as a JSON string of its text. The expressions do not depend on session settings.
import { quoteLiteral } from '../sql/identifiers.ts';
import { type EngineType, parseEngineType } from './type_parser.ts';

export type NumbersForm = 'number' | 'string';

/** @returns a VARCHAR expression that is never NULL: the JSON text of `expression`, `null` for NULL. */
export function jsonExpression(duckdbTypeText: string, expression: string, numbers: NumbersForm): string {
  return write(parseEngineType(duckdbTypeText), expression, { numbers, depth: 0 });
}

interface Context {
  readonly numbers: NumbersForm;
  /** Makes the lambda parameters of nested lists distinct. */
  readonly depth: number;
}
type ScalarWriter = (x: string, context: Context) => string;

const orNull = (text: string): string => `coalesce(${text}, 'null')`;
/** Measured: concat casts and joins in one pass, whereas `||` creates a string at each step. */
const quotedText = (x: string, text: string): string =>
  `CASE WHEN ${x} IS NULL THEN 'null' ELSE concat('"', ${text}, '"') END`;
const plain: ScalarWriter = (x) => orNull(`${x}::VARCHAR`);
const quoted: ScalarWriter = (x) => quotedText(x, `${x}::VARCHAR`);
const escaped: ScalarWriter = (x) => orNull(`to_json(${x}::VARCHAR)::VARCHAR`);
const wide: ScalarWriter = (x, context) => (context.numbers === 'string' ? quoted(x, context) : plain(x, context));

/** DuckDB omits the zero before the point of a decimal below 1; JSON requires it. */
const fraction: ScalarWriter = (x, { numbers }) => {
  const mark = numbers === 'string' ? '"' : '';
  const text = `CASE WHEN ${x} < 0 THEN replace(${x}::VARCHAR, '-', '-0') ELSE concat('0', ${x}::VARCHAR) END`;
  return `CASE WHEN ${x} IS NULL THEN 'null' ELSE concat('${mark}', ${text}, '${mark}') END`;
};

/** to_json writes a DOUBLE twice as fast as a cast does, but widens a FLOAT first: 0.1 would become 0.10000000149011612. */
const float =
  (finite: (x: string) => string): ScalarWriter =>
  (x) =>
    `CASE WHEN isfinite(${x}) THEN ${finite(x)} WHEN isnan(${x}) THEN '"NaN"' ` +
    `WHEN ${x} > 0 THEN '"Infinity"' WHEN ${x} < 0 THEN '"-Infinity"' ELSE 'null' END`;

/** Date and time are cast separately, which is faster than replacing the space by a T. Infinite values are "infinity" or "-infinity". */
const datetimeText = (x: string, finite: string, zone: string): string =>
  `CASE WHEN isfinite(${x}) THEN concat('"', ${finite}::DATE, 'T', ${finite}::TIME, '${zone}"') ` +
  `ELSE coalesce('"' || ${x}::VARCHAR || '"', 'null') END`;
const datetime: ScalarWriter = (x) => datetimeText(x, x, '');
const datetimeNs: ScalarWriter = (x) => quotedText(x, `replace(replace(${x}::VARCHAR, ' ', 'T'), 'T(', ' (')`);
/** Uses the microseconds: independent of the session's time zone, and three times as fast as timezone(). */
const timestamp: ScalarWriter = (x) => datetimeText(x, `make_timestamp(epoch_us(${x}))`, 'Z');

/**
 * DuckDB's JSON can be invalid: trailing commas, NaN, Infinity. It can also contain line breaks, at which the pages of a result are
 * split. Such values are rare, so a single test comes first. A value that cannot be corrected is written as a string.
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
  BOOLEAN: (x) => `CASE WHEN ${x} THEN 'true' WHEN NOT ${x} THEN 'false' ELSE 'null' END`,
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
  BLOB: (x) => quotedText(x, `to_base64(${x})`),
  JSON: json,
  VARIANT: (x, context) => json(`(${x}::JSON)`, context),
  NULL: () => `'null'`,
  SQLNULL: () => `'null'`,
};

function write(type: EngineType, x: string, context: Context): string {
  if (isWrittenByToJson(type, context.numbers)) {
    return orNull(`to_json(${type.kind === 'map' ? `map_entries(${x})` : x})::VARCHAR`);
  }
  switch (type.kind) {
    case 'scalar':
      return (Object.hasOwn(scalars, type.name) ? scalars[type.name]! : escaped)(x, context);
    case 'decimal':
      return type.precision === type.scale ? fraction(x, context) : wide(x, context);
    case 'list': {
      const e = `e${context.depth}`;
      return orNullText(x, `'[' || ${joinItems(x, e, write(type.element, e, nested(context)))} || ']'`);
    }
    case 'map': {
      const e = `e${context.depth}`;
      const key = write(type.key, `${e}.key`, nested(context));
      const value = write(type.value, `${e}.value`, nested(context));
      return orNullText(
        x,
        `'[' || ${joinItems(`map_entries(${x})`, e, `'{"key":' || ${key} || ',"value":' || ${value} || '}'`)} || ']'`,
      );
    }
    case 'struct':
      return orNullText(x, writeStruct(type.fields, x, context));
    case 'union': {
      const members = type.members.map(({ name = '', type: member }) => {
        const value = `union_extract(${x}, ${quoteLiteral(name)})`;
        return `WHEN ${quoteLiteral(name)} THEN ${write(member, value, context)}`;
      });
      return `CASE union_tag(${x})::VARCHAR ${members.join(' ')} ELSE 'null' END`;
    }
  }
}

const orNullText = (x: string, text: string): string => `CASE WHEN ${x} IS NULL THEN 'null' ELSE ${text} END`;
const nested = (context: Context): Context => ({ ...context, depth: context.depth + 1 });
const joinItems = (list: string, e: string, text: string): string =>
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

/** Scalars in a list or struct for which DuckDB's to_json writes the same text as the expressions here. */
const toJsonScalars = new Set(
  'BOOLEAN TINYINT SMALLINT INTEGER UTINYINT USMALLINT UINTEGER BIGINT UBIGINT HUGEINT VARCHAR DATE UUID TIME'.split(
    ' ',
  ),
);
const wideScalars = new Set(['BIGINT', 'UBIGINT', 'HUGEINT']);

/** Whether to_json can write the whole nested type, which is many times faster than a lambda. */
function isWrittenByToJson(type: EngineType, numbers: NumbersForm): boolean {
  const leaf = (t: EngineType): boolean => {
    if (t.kind === 'scalar') return toJsonScalars.has(t.name) && !(numbers === 'string' && wideScalars.has(t.name));
    if (t.kind === 'list') return leaf(t.element);
    return t.kind === 'struct' && t.fields.every((f) => f.name !== undefined && leaf(f.type));
  };
  // The API represents a map as a list of entries, to_json as an object: only an outermost map can be converted.
  if (type.kind === 'map') return leaf(type.key) && leaf(type.value);
  return (type.kind === 'list' || type.kind === 'struct') && leaf(type);
}
