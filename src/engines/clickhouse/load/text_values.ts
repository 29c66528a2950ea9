// Converts texts of a file to values of a type, exactly: ClickHouse's own conversions wrap numbers that are too large, turn February 30 into
// March 2 and cut superfluous digits off, so that each result is compared with its text. Invalid texts become NULL.
import type { LogicalType } from '../../../model/types.ts';
import { quoteLiteral } from '../sql/identifiers.ts';

/** How the texts of a file are written. */
export interface TextForm {
  readonly dateFormat?: string | undefined;
  readonly timestampFormat?: string | undefined;
  readonly decimalSeparator?: '.' | ',' | undefined;
  /** JSON texts were parsed before. */
  readonly isJsonChecked?: boolean | undefined;
}

/**
 * The value of the non-null String `s`; NULL if it is no value of the type. The usual form of a text costs one conversion and one comparison;
 * the second branch of an `if` is computed only for the rows that need it (`short_circuit_function_evaluation`). Throws for nested types.
 */
export function valueOfText(type: LogicalType, s: string, form: TextForm = {}): string {
  switch (type.kind) {
    case 'BOOLEAN':
      return booleanOf(s);
    case 'TINYINT':
      return integerOf(s, 'Int8');
    case 'SMALLINT':
      return integerOf(s, 'Int16');
    case 'INT':
      return integerOf(s, 'Int32');
    case 'BIGINT':
      return integerOf(s, 'Int64');
    case 'LARGEINT':
      return largeIntegerOf(s);
    case 'FLOAT':
      return floatOf(pointed(s, form), 'toFloat32OrNull');
    case 'DOUBLE':
      return floatOf(pointed(s, form), 'toFloat64OrNull');
    case 'DECIMAL':
      return decimalOf(pointed(s, form), type);
    case 'DATE':
      return dateOf(formatted(s, form.dateFormat));
    case 'DATETIME':
      return datetimeOf(formatted(s, form.timestampFormat));
    case 'TIMESTAMPTZ':
      return timestampOf(formatted(s, form.timestampFormat));
    case 'CHAR':
    case 'VARCHAR':
      return `if(isValidUTF8(${s}) AND (length(${s}) <= ${type.length} OR lengthUTF8(${s}) <= ${type.length}), ${nullable(s)}, NULL)`;
    case 'STRING':
      return `if(isValidUTF8(${s}), ${nullable(s)}, NULL)`;
    case 'BINARY':
      return `if(base64Encode(tryBase64Decode(${s})) = ${s}, tryBase64Decode(${s}), NULL)`;
    case 'JSON':
      return form.isJsonChecked ? nullable(s) : `if(isValidJSON(${s}) AND isValidUTF8(${s}), ${nullable(s)}, NULL)`;
    case 'UUID':
      return `if(length(${s}) = 36, toUUIDOrNull(${s}), NULL)`;
    default:
      throw new Error(`the values of ${type.kind} are nested`);
  }
}

const nullable = (s: string): string => `toNullable(${s})`;

/** The first value that is not NULL; the second is computed only where the first is. */
const orElse = (first: string, second: string): string => `if(isNotNull(${first}), ${first}, ${second})`;

const booleanOf = (s: string): string =>
  `multiIf(${s} = 'true', true, ${s} = 'false', false, lower(${s}) IN ('true', 't', '1', 'yes', 'y'), true, ` +
  `lower(${s}) IN ('false', 'f', '0', 'no', 'n'), false, NULL)`;

/** The text of an integer in another form, such as ` 5`, `5.0` or `5e2`; of a number with a fraction, a text that is no integer. */
const wholeText = (s: string): string => {
  const text = `trimBoth(${s})`;
  return `if(${isNumber(text)}, toString(toDecimal256OrNull(${text}, 30)), NULL)`;
};

const isNumber = (text: string): string =>
  String.raw`match(${text}, '^[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]{1,3})?$')`;

const integerOf = (s: string, type: string): string =>
  orElse(`to${type}OrNull(${s})`, `to${type}OrNull(${wholeText(s)})`);

/** Up to 38 digits fit; more are compared with the digits of the result. */
const shortInt128 = (s: string): string =>
  `if(length(${s}) <= 38 OR toString(toInt128OrNull(${s})) = ${s}, toInt128OrNull(${s}), NULL)`;
const largeIntegerOf = (s: string): string => orElse(shortInt128(s), shortInt128(wholeText(s)));

const infinities = `'inf', '+inf', '-inf', 'infinity', '+infinity', '-infinity'`;
const finiteOf = (s: string, convert: string): string =>
  `if(isInfinite(${convert}(${s})) AND lower(${s}) NOT IN (${infinities}), NULL, ${convert}(${s}))`;
const floatOf = (s: string, convert: string): string =>
  orElse(finiteOf(s, convert), finiteOf(`trimBoth(${s})`, convert));

/** The converter refuses numbers with more digits than the widest decimal of 64 or 128 bits has; other precisions are compared. */
function decimalOf(s: string, { precision, scale }: { readonly precision: number; readonly scale: number }): string {
  const width = precision <= 18 ? 18 : 38;
  const convert = width === 18 ? 'toDecimal64OrNull' : 'toDecimal128OrNull';
  const value = `${convert}(${s}, ${scale})`;
  const limit = `CAST('1${'0'.repeat(precision - scale)}' AS Decimal(${width}, ${scale}))`;
  const isInRange = precision === width ? '' : ` AND ${value} < ${limit} AND ${value} > -${limit}`;
  // The converter cuts off the digits that exceed the scale, and ignores a second point.
  const fraction = scale === 0 ? '' : `([.][0-9]{1,${scale}})?`;
  const exact = `toDecimal256OrNull(trimBoth(${s}), 38)`;
  const bound = `CAST('1${'0'.repeat(precision - scale)}' AS Decimal(76, 0))`;
  const isExact = `${isNumber(`trimBoth(${s})`)} AND ${exact} = truncate(${exact}, ${scale}) AND ${exact} < ${bound} AND ${exact} > -${bound}`;
  return orElse(
    `if(match(${s}, '^-?[0-9]+${fraction}$')${isInRange}, ${value}, NULL)`,
    `if(${isExact}, CAST(${exact} AS Nullable(Decimal(${width}, ${scale}))), NULL)`,
  );
}

const padded = (text: string): string => `leftPad(${text}, 2, '0')`;

const dateOf = (s: string): string => orElse(isoDate(s), isoDate(normalDate(`trimBoth(${s})`)));
const isoDate = (s: string): string => `if(toString(toDate32OrNull(${s})) = ${s}, toDate32OrNull(${s}), NULL)`;

/** `2001-2-3`, `2001/02/03` and a date with the time zero, as `2001-02-03`. */
function normalDate(s: string): string {
  const parts = String.raw`extractGroups(${s}, '^([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:[T ]00:00(?::00(?:\\.0+)?)?)?$')`;
  return `concat(${parts}[1], '-', ${padded(`${parts}[2]`)}, '-', ${padded(`${parts}[3]`)})`;
}

const datetimeOf = (s: string): string => orElse(isoDatetime(s), isoDatetime(normalDatetime(`trimBoth(${s})`)));

/** The text of the result begins with the text, which has at most six digits after the point. */
function isoDatetime(s: string): string {
  const value = `toDateTime64OrNull(${s}, 6, 'UTC')`;
  return `if(length(${s}) BETWEEN 10 AND 26 AND ${s} >= '1900' AND ${s} < '2300' AND startsWith(toString(${value}), replaceOne(${s}, 'T', ' ')), ${value}, NULL)`;
}

function normalDatetime(s: string): string {
  const parts = String.raw`extractGroups(${s}, '^([0-9]{4})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:[T ]([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:\\.([0-9]{1,6})0*)?)?)?$')`;
  const part = (i: number) => padded(`${parts}[${i}]`);
  const fraction = `if(${parts}[7] = '', '', concat('.', ${parts}[7]))`;
  return `concat(${parts}[1], '-', ${part(2)}, '-', ${part(3)}, ' ', ${part(4)}, ':', ${part(5)}, ':', ${part(6)}, ${fraction})`;
}

/** A text without a zone is in UTC. */
function timestampOf(s: string): string {
  const local = (text: string) => datetimeOf(text);
  const zone = `extractGroups(${s}, '^(.{10,}?) ?([+-])([0-9]{2}):?([0-9]{2})?$')`;
  const hours = `toUInt8OrZero(${zone}[3])`;
  const minutes = `toUInt8OrZero(${zone}[4])`;
  const offset = `(${hours} * 3600 + ${minutes} * 60) * if(${zone}[2] = '-', 1, -1)`;
  const zoned = `if(length(${zone}) = 4 AND ${hours} <= 14 AND ${minutes} < 60, addSeconds(${local(`${zone}[1]`)}, ${offset}), NULL)`;
  const utc = local(`substring(${s}, 1, length(${s}) - 1)`);
  return `multiIf(endsWith(${s}, 'Z'), ${utc}, length(${s}) > 10 AND match(substring(${s}, 11), '[+-]'), ${zoned}, ${local(s)})`;
}

/** Numbers with a decimal comma. */
const pointed = (s: string, { decimalSeparator }: TextForm): string =>
  decimalSeparator === ',' ? `if(position(${s}, '.') = 0, replaceOne(${s}, ',', '.'), 'x')` : s;

interface Directive {
  readonly pattern: string;
  readonly part:
    | 'year'
    | 'year2'
    | 'month'
    | 'monthName'
    | 'day'
    | 'hour'
    | 'hour12'
    | 'half'
    | 'minute'
    | 'second'
    | 'fraction'
    | 'zone'
    | 'none';
}
/** The directives of strptime. */
const directives: Readonly<Record<string, Directive>> = {
  Y: { pattern: '[0-9]{4}', part: 'year' },
  y: { pattern: '[0-9]{2}', part: 'year2' },
  m: { pattern: '[0-9]{1,2}', part: 'month' },
  '-m': { pattern: '[0-9]{1,2}', part: 'month' },
  b: { pattern: '[A-Za-z]{3}', part: 'monthName' },
  B: { pattern: '[A-Za-z]{3,9}', part: 'monthName' },
  d: { pattern: '[0-9]{1,2}', part: 'day' },
  '-d': { pattern: '[0-9]{1,2}', part: 'day' },
  H: { pattern: '[0-9]{1,2}', part: 'hour' },
  '-H': { pattern: '[0-9]{1,2}', part: 'hour' },
  I: { pattern: '[0-9]{1,2}', part: 'hour12' },
  '-I': { pattern: '[0-9]{1,2}', part: 'hour12' },
  p: { pattern: '[AaPp][Mm]', part: 'half' },
  M: { pattern: '[0-9]{1,2}', part: 'minute' },
  '-M': { pattern: '[0-9]{1,2}', part: 'minute' },
  S: { pattern: '[0-9]{1,2}', part: 'second' },
  '-S': { pattern: '[0-9]{1,2}', part: 'second' },
  f: { pattern: '[0-9]{1,6}', part: 'fraction' },
  z: { pattern: 'Z|[+-][0-9]{2}(?::?[0-9]{2})?', part: 'zone' },
  a: { pattern: '[A-Za-z]{3}', part: 'none' },
  A: { pattern: '[A-Za-z]{6,9}', part: 'none' },
};
const monthNames = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** A format has a directive that is not known. */
export class UnknownDirective extends Error {
  override name = 'UnknownDirective';
}

/** A text in a format of strptime as an ISO text. Throws UnknownDirective. */
function formatted(s: string, format: string | undefined): string {
  if (format === undefined || format === '%Y-%m-%d') return s;
  const { pattern, parts } = readFormat(format);
  const groups = `extractGroups(${s}, ${quoteLiteral(`^${pattern}$`)})`;
  const group = (part: Directive['part']): string | undefined =>
    parts.includes(part) ? `${groups}[${parts.indexOf(part) + 1}]` : undefined;
  const two = (text: string | undefined, other: string) => (text === undefined ? `'${other}'` : padded(text));
  const short = group('year2');
  const year =
    group('year') ??
    (short === undefined ? `'1900'` : `concat(if(toUInt8OrZero(${short}) < 69, '20', '19'), ${short})`);
  const name = group('monthName');
  const month =
    name === undefined
      ? two(group('month'), '01')
      : padded(
          `toString(indexOf([${monthNames.map((text) => `'${text}'`).join(', ')}], lower(substring(${name}, 1, 3))))`,
        );
  const date = `${year}, '-', ${month}, '-', ${two(group('day'), '01')}`;
  const half = group('half');
  const twelve = group('hour12');
  const hour =
    twelve === undefined
      ? two(group('hour'), '00')
      : `if(toUInt8OrZero(${twelve}) BETWEEN 1 AND 12, ${padded(`toString(toUInt8OrZero(${twelve}) % 12${half === undefined ? '' : ` + if(lower(${half}) = 'pm', 12, 0)`})`)}, '99')`;
  const fraction = group('fraction');
  const rest = fraction === undefined ? '' : `, '.', ${fraction}`;
  const zone = group('zone');
  const hasTime = parts.some((part) => /^(?:hour|minute|second)/.test(part));
  const time = hasTime
    ? `, ' ', ${hour}, ':', ${two(group('minute'), '00')}, ':', ${two(group('second'), '00')}${rest}${zone === undefined ? '' : `, ${zone}`}`
    : '';
  return `if(length(${groups}) = 0, '', concat(${date}${time}))`;
}

function readFormat(format: string): { readonly pattern: string; readonly parts: readonly Directive['part'][] } {
  const parts: Directive['part'][] = [];
  const pattern = format.replaceAll(/%(-?.)|([.*+?^${}()|[\]\\])/gs, (_, name: string | undefined, special: string) => {
    if (name === undefined) return `\\${special}`;
    if (name === '%') return '%';
    const directive = directives[name];
    if (directive === undefined) throw new UnknownDirective(`%${name}`);
    parts.push(directive.part);
    return `(${directive.pattern})`;
  });
  return { pattern, parts };
}
