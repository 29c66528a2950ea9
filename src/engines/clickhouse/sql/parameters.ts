// Turns the parameters of a statement (`$1`, `?`, `$name`) into ClickHouse's (`{p1:Int64}`), each with the type that holds its JSON value
// exactly. Values never become a part of the text.
import { Failure } from '../../../standard/failure.ts';
import type { StatementParameters } from '../../port/statements.ts';
import { quoteIdentifier } from './identifiers.ts';
import type { Replacement } from './rewritten_text.ts';
import type { Token } from './tokens.ts';

export interface TypedParameters {
  readonly replacements: readonly Replacement[];
  /** By the names in the rewritten text, in ClickHouse's text format. */
  readonly values: Readonly<Record<string, string>>;
}

/** A type, and a value of it as a literal in an array or tuple. */
interface TypedValue {
  readonly type: string;
  readonly literal: string;
}

const depthMax = 32;
const nullType = 'Nullable(Nothing)';

/**
 * @param supplied absent: none. @param isUnknownNull a parameter without a value is null, so that a statement can be analyzed without
 * them. Throws PARAMETERS_INVALID.
 */
export function typeParameters(
  tokens: readonly Token[],
  supplied: StatementParameters | undefined,
  { isUnknownNull = false } = {},
): TypedParameters {
  const replacements: Replacement[] = [];
  const values: Record<string, string> = {};
  const found = tokens.filter(({ kind }) => kind === 'parameter');
  const names = namesOf(found);
  const valueNamed = valuesByName([...new Set(names)], supplied, isUnknownNull);
  const types = new Map<string, string>();
  for (const [i, token] of found.entries()) {
    const name = names[i] as string;
    const key = `p_${name.toLowerCase()}`;
    let type = types.get(key);
    if (type === undefined) {
      const typed = typedValue(valueNamed(name), name, 0);
      type = typed.type;
      types.set(key, type);
      values[key] = textFormat(valueNamed(name), typed);
    }
    replacements.push({ start: token.start, end: token.end, text: `{${key}:${type}}` });
  }
  return { replacements, values };
}

function namesOf(parameters: readonly Token[]): string[] {
  let count = 0;
  const names = parameters.map(({ text }) => (text === '?' ? String(++count) : text.slice(1)));
  if (count > 0 && count < parameters.length)
    throw new Failure('PARAMETERS_INVALID', 'a statement has either ? or named or numbered parameters, not both');
  return names;
}

const isNumber = (name: string) => /^\d+$/.test(name);

function valuesByName(
  names: readonly string[],
  supplied: StatementParameters | undefined,
  isUnknownNull: boolean,
): (name: string) => unknown {
  const wrong = (message: string) => new Failure('PARAMETERS_INVALID', message, { parameters: names });
  const count = names.length;
  if (supplied === undefined) {
    if (count > 0 && !isUnknownNull) throw wrong(`the statement has ${count} parameters, but the request has none`);
    return () => null;
  }
  if (Array.isArray(supplied)) {
    const named = names.filter((name) => !isNumber(name));
    if (named.length > 0)
      throw wrong(`the statement has named parameters (${named.join(', ')}); send them as an object`);
    if (names.some((name) => Number(name) < 1 || Number(name) > count))
      throw wrong('the parameters must be numbered $1, $2, ... without gaps');
    if (supplied.length !== count)
      throw wrong(`the statement has ${count} parameters, but the request has ${supplied.length}`);
    return (name) => supplied[Number(name) - 1];
  }
  const unused = new Map(Object.entries(supplied).map(([name, value]) => [name.toLowerCase(), { name, value }]));
  const values = new Map<string, unknown>();
  for (const name of names) {
    const key = name.toLowerCase();
    if (values.has(key)) continue;
    const one = unused.get(key);
    if (!one) throw wrong(`the parameter ${JSON.stringify(name)} has no value`);
    unused.delete(key);
    values.set(key, one.value);
  }
  const [extra] = unused.values();
  if (extra !== undefined) throw wrong(`the statement has no parameter ${JSON.stringify(extra.name)}`);
  return (name) => values.get(name.toLowerCase());
}

/** The value of a parameter as a server reads it. */
function textFormat(value: unknown, { literal }: TypedValue): string {
  if (value === null) return '\\N';
  // A server reads the texts of other types without undoing escapes first.
  return typeof value === 'string' ? escapeText(value) : literal;
}

const escapes: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\0': '\\0',
};
const escapeText = (text: string): string =>
  text.replace(/[\\\t\n\r\u0000]/g, (character) => escapes[character] as string);

function typedValue(value: unknown, name: string, depth: number): TypedValue {
  if (depth > depthMax)
    throw new Failure('PARAMETERS_INVALID', `the parameter ${JSON.stringify(name)} is nested too deeply`);
  if (value === null || value === undefined) return { type: nullType, literal: 'NULL' };
  if (typeof value === 'boolean') return { type: 'Bool', literal: String(value) };
  if (typeof value === 'string') return { type: 'String', literal: `'${escapeText(value).replaceAll("'", "\\'")}'` };
  if (typeof value === 'number' || JSON.isRawJSON(value)) return numberValue(value, name);
  if (Array.isArray(value)) return arrayValue(value, name, depth);
  const fields = Object.entries(value as object).map(([key, one]) => [key, typedValue(one, name, depth + 1)] as const);
  if (fields.length === 0)
    throw new Failure('PARAMETERS_INVALID', `the parameter ${JSON.stringify(name)} is an object without fields`);
  return {
    type: `Tuple(${fields.map(([key, { type }]) => `${fieldName(key, name)} ${type}`).join(', ')})`,
    literal: `(${fields.map(([, { literal }]) => literal).join(', ')})`,
  };
}

function fieldName(key: string, name: string): string {
  if (/[{}\\`\p{Cc}]/u.test(key) || key === '')
    throw new Failure(
      'PARAMETERS_INVALID',
      `the parameter ${JSON.stringify(name)} has a field whose name is not supported`,
    );
  return quoteIdentifier(key);
}

const integerTypes: readonly (readonly [string, number])[] = [
  ['Int32', 31],
  ['Int64', 63],
  ['Int128', 127],
];

function numberValue(value: number | { readonly rawJSON: string }, name: string): TypedValue {
  const text = typeof value === 'number' ? (Object.is(value, -0) ? '-0.0' : String(value)) : value.rawJSON;
  const tooWide = () =>
    new Failure(
      'PARAMETERS_INVALID',
      `the parameter ${JSON.stringify(name)} is a number that no type can hold exactly`,
    );
  if (/^-?\d+$/.test(text)) {
    const exact = BigInt(text);
    const [type] = integerTypes.find(([, bits]) => exact >= -(2n ** BigInt(bits)) && exact < 2n ** BigInt(bits)) ?? [];
    if (type === undefined) throw tooWide();
    return { type, literal: String(exact) };
  }
  const [, whole, fraction] = /^-?(\d+)\.(\d+)$/.exec(text) ?? [];
  if (typeof value !== 'number' && whole !== undefined && fraction !== undefined) {
    if (Math.max(whole.replace(/^0+/, '').length, 0) + fraction.length > 38) throw tooWide();
    return { type: `Decimal(38, ${fraction.length})`, literal: text };
  }
  if (!Number.isFinite(Number(text))) throw tooWide();
  return { type: 'Float64', literal: String(Number(text)) };
}

const numberRank = ['Int32', 'Int64', 'Int128', 'Float64'];

function arrayValue(items: readonly unknown[], name: string, depth: number): TypedValue {
  const typed = items.map((item) => typedValue(item, name, depth + 1));
  const types = [...new Set(typed.map(({ type }) => type).filter((type) => type !== nullType))];
  const hasNull = typed.some(({ type }) => type === nullType);
  const element = commonType(types, name);
  const isNullable = hasNull && !/^(?:Array|Tuple|Nullable)\(/.test(element);
  if (hasNull && !isNullable && element !== nullType)
    throw new Failure(
      'PARAMETERS_INVALID',
      `the parameter ${JSON.stringify(name)} has null among arrays or objects, which the engine has not`,
    );
  return {
    type: `Array(${isNullable ? `Nullable(${element})` : element})`,
    literal: `[${typed.map(({ literal }) => literal).join(',')}]`,
  };
}

function commonType(types: readonly string[], name: string): string {
  const [first, ...others] = types;
  if (first === undefined) return nullType;
  if (others.length === 0) return first;
  const numeric = types.map((type) => (type.startsWith('Decimal(') ? 'Float64' : type));
  const ranks = numeric.map((type) => numberRank.indexOf(type));
  if (ranks.every((rank) => rank >= 0)) return numberRank[Math.max(...ranks)] as string;
  throw new Failure('PARAMETERS_INVALID', `the values in the parameter ${JSON.stringify(name)} have no common type`);
}
