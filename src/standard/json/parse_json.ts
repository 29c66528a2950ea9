// Lossless JSON: numbers that a double cannot represent are kept as JSON.rawJSON objects, which JSON.stringify writes unchanged.
// Malformed text is a Failure with line and column (rest-standard B2).
import { Failure } from '../failure.ts';
import { duplicateNameOffset, positionAt, stringEnd, syntaxErrorOffset } from './syntax_errors.ts';

export const jsonDepthMax = 128;
/** The maximum number of members of one object: larger objects are slow to create, and no table has as many columns. */
export const membersMax = 20_000;

/** A number as its source text. Node has these (TC39 "JSON.parse source text access"); TypeScript's library does not yet. */
export interface RawJson {
  readonly rawJSON: string;
}

declare global {
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown;
  }
}

/** Parses text. `depthMax` can be raised for text that this server has written. Throws MALFORMED_JSON. */
export function parseJson(text: string, depthMax = jsonDepthMax): unknown {
  return valueIn(text, survey(text, depthMax), depthMax);
}

/**
 * Parses the text of a request, in which member names must be unique and the number of values (members of objects and elements of
 * arrays) is at most `valuesMax`. Throws MALFORMED_JSON, BODY_TOO_LARGE.
 */
export function parseRequestJson(
  text: string,
  valuesMax: number,
): { readonly value: unknown; readonly wideNumbers: boolean } {
  const surveyed = survey(text, jsonDepthMax);
  if (surveyed.tooDeepAt === undefined) requireBounded(surveyed, valuesMax);
  const value = valueIn(text, surveyed, jsonDepthMax);
  // For duplicate names, JSON.parse keeps the last member.
  if (membersIn(value) === surveyed.members) return { value, wideNumbers: surveyed.wideNumbers };
  throw malformed(text, duplicateNameOffset(text) ?? 0, 'an object has a duplicate member name');
}

/** Parses text that `parseRequestJson` has accepted; `wideNumbers` is from its result. */
export function parseKnownJson(text: string, wideNumbers: boolean): unknown {
  return wideNumbers ? JSON.parse(text, keepExact) : JSON.parse(text);
}

function requireBounded({ values, widestMembers }: Survey, valuesMax: number): void {
  if (values > valuesMax) {
    const message = `the body has more than ${valuesMax} values (members of objects and elements of arrays)`;
    throw new Failure('BODY_TOO_LARGE', message, { valuesMax });
  }
  if (widestMembers > membersMax)
    throw new Failure('BODY_TOO_LARGE', `an object in the body has more than ${membersMax} members`, { membersMax });
}

function valueIn(text: string, { tooDeepAt, wideNumbers }: Survey, depthMax: number): unknown {
  // Checked before parsing: a reviver overflows the stack at a nesting depth of 100,000.
  if (tooDeepAt !== undefined) throw malformed(text, tooDeepAt, `the nesting depth exceeds ${depthMax}`);
  try {
    // A reviver makes parsing eight times slower, and most texts do not need it.
    return parseKnownJson(text, wideNumbers);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(text, syntaxErrorOffset(text) ?? 0, 'the text is not valid JSON');
  }
}

function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const inner of value) if (typeof inner === 'object') count += membersIn(inner);
    return count;
  }
  for (const name in value) {
    count++;
    const inner = (value as Record<string, unknown>)[name];
    if (typeof inner === 'object') count += membersIn(inner);
  }
  return count;
}

function keepExact(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number' || context.source === undefined) return value;
  const { source } = context;
  if (Number.isSafeInteger(value) && /^-?\d+$/.test(source)) return value;
  return sameNumber(source, String(value)) ? value : JSON.rawJSON(source);
}

/** Whether two decimal texts denote the same number: equal digits and exponent after zeros are stripped. */
function sameNumber(a: string, b: string): boolean {
  return a === b || canonicalNumber(a) === canonicalNumber(b);
}

/** The canonical text of a number. */
export function canonicalNumber(text: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = whole + fraction;
  let first = 0;
  while (digits.charCodeAt(first) === 48) first++;
  // Not a regular expression for trailing zeros: it would restart at each zero of a long number.
  let last = digits.length;
  while (last > first && digits.charCodeAt(last - 1) === 48) last--;
  if (first === last) return '0';
  return `${sign}${digits.slice(first, last)}e${Number(exponent) - fraction.length + digits.length - last}`;
}

function malformed(text: string, offset: number, what: string): Failure {
  const { line, column } = positionAt(text, offset);
  return new Failure('MALFORMED_JSON', `${what} at line ${line}, column ${column}`, { line, column });
}

interface Survey {
  /** The offset at which nesting passes the limit. */
  readonly tooDeepAt?: number;
  /** Whether a double would change any number in the text. */
  readonly wideNumbers: boolean;
  /** Members of all objects, if the text is valid. */
  readonly members: number;
  /** Members of the largest object. */
  readonly widestMembers: number;
  /** An upper bound of objects, arrays, members and elements, if the text is valid. */
  readonly values: number;
}

/** Scans the text outside of strings once. The result is meaningless for malformed text, which JSON.parse rejects. */
function survey(text: string, depthMax: number): Survey {
  let depth = 0;
  let wideNumbers = false;
  let members = 0;
  let values = 1;
  let widestMembers = 0;
  /** The members so far of the open objects, by depth. */
  const before: number[] = [];
  let own = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) i = stringEnd(text, i);
    else if (c === 44) values++;
    else if (c === 58) {
      members++;
      if (++own > widestMembers) widestMembers = own;
    } else if (c === 123 || c === 91) {
      values++;
      before[depth] = own;
      own = 0;
      if (++depth > depthMax) return { tooDeepAt: i, wideNumbers, members, widestMembers, values };
    } else if (c === 125 || c === 93) {
      depth--;
      own = before[depth] ?? 0;
    } else if (c >= 48 && c <= 57) {
      const end = numberEnd(text, i);
      wideNumbers ||= isWide(text, i, end);
      i = end - 1;
    }
  }
  return { wideNumbers, members, widestMembers, values };
}

function numberEnd(text: string, start: number): number {
  let end = start + 1;
  // Digits, a point, an exponent and its sign.
  for (; ; end++) {
    const c = text.charCodeAt(end);
    if (!((c >= 48 && c <= 57) || c === 46 || c === 101 || c === 69 || c === 43 || c === 45)) return end;
  }
}

/** A double represents 15 digits exactly; more digits or an exponent need a check. */
function isWide(text: string, start: number, end: number): boolean {
  if (end - start <= 15 && !hasExponent(text, start, end)) return false;
  const source = text.slice(start, end);
  return !sameNumber(source, String(Number(source)));
}

/** Reads the characters in place: a slice for each number would be slower than the scan. */
function hasExponent(text: string, start: number, end: number): boolean {
  for (let i = start + 1; i < end; i++) if ((text.charCodeAt(i) | 32) === 101) return true;
  return false;
}
