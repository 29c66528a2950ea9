// JSON in and out, exactly: numbers that a double cannot hold are kept as JSON.rawJSON objects, which JSON.stringify writes
// back to the letter. Malformed text is a Failure with line and column (rest-standard B2).
import { Failure } from './failure.ts';
import { faultIn, placeAt, repeatedNameIn, stringEnd } from './json_faults.ts';

export const jsonDepthMax = 128;
/** Of one object: an object with very many is slow to make, and no table has as many columns. */
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

/** Text to value. Throws Failure MALFORMED_JSON. `depthMax`: for text of our own making that may nest deeper. */
export function parseJson(text: string, depthMax = jsonDepthMax): unknown {
  return valueIn(text, survey(text, depthMax), depthMax);
}

/**
 * The text of a request, in which no object has two members of one name, and which has at most `valuesMax` values (members of objects
 * and elements of arrays). Throws MALFORMED_JSON, BODY_TOO_LARGE.
 */
export function parseRequestJson(
  text: string,
  valuesMax: number,
): { readonly value: unknown; readonly wideNumbers: boolean } {
  const surveyed = survey(text, jsonDepthMax);
  if (surveyed.tooDeepAt === undefined) requireBounded(surveyed, valuesMax);
  const value = valueIn(text, surveyed, jsonDepthMax);
  // Of two members of one name, JSON.parse keeps the last.
  if (membersIn(value) === surveyed.members) return { value, wideNumbers: surveyed.wideNumbers };
  throw malformed(text, repeatedNameIn(text) ?? 0, 'an object names a member twice');
}

/** Text that `parseRequestJson` took before, with what it said of its numbers. */
export function parseKnownJson(text: string, wideNumbers: boolean): unknown {
  return wideNumbers ? JSON.parse(text, keepExact) : JSON.parse(text);
}

function requireBounded({ values, widestMembers }: Survey, valuesMax: number): void {
  if (values > valuesMax) {
    const message = `the body has more than ${valuesMax} values (members of objects and elements of arrays)`;
    throw new Failure('BODY_TOO_LARGE', message, { valuesMax });
  }
  if (widestMembers > membersMax)
    throw new Failure('BODY_TOO_LARGE', `an object of the body has more than ${membersMax} members`, { membersMax });
}

function valueIn(text: string, { tooDeepAt, wideNumbers }: Survey, depthMax: number): unknown {
  // Before parsing: a reviver overflows the stack on text that nests a hundred thousand deep.
  if (tooDeepAt !== undefined) throw malformed(text, tooDeepAt, `nesting is at most ${depthMax} deep`);
  try {
    // A reviver makes parsing eight times as slow, and almost every text can do without.
    return parseKnownJson(text, wideNumbers);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(text, faultIn(text) ?? 0, 'this is not JSON');
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

/** Whether two decimal texts mean the same number: equal digits and exponent after zeros are taken off. */
function sameNumber(a: string, b: string): boolean {
  return a === b || canonicalNumber(a) === canonicalNumber(b);
}

/** One text for all that mean the same number. */
export function canonicalNumber(text: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = whole + fraction;
  let first = 0;
  while (digits.charCodeAt(first) === 48) first++;
  // No pattern for zeros at the end: it would begin anew at each zero of a long number.
  let last = digits.length;
  while (last > first && digits.charCodeAt(last - 1) === 48) last--;
  if (first === last) return '0';
  return `${sign}${digits.slice(first, last)}e${Number(exponent) - fraction.length + digits.length - last}`;
}

function malformed(text: string, offset: number, what: string): Failure {
  const { line, column } = placeAt(text, offset);
  return new Failure('MALFORMED_JSON', `${what} at line ${line}, column ${column}`, { line, column });
}

interface Survey {
  /** The offset at which nesting passes the limit. */
  readonly tooDeepAt?: number;
  /** Whether a double would change a number of the text. */
  readonly wideNumbers: boolean;
  /** Members of all objects, of sound text. */
  readonly members: number;
  /** Of the object that has most. */
  readonly widestMembers: number;
  /** Objects, arrays, their members and elements: at most, of sound text. */
  readonly values: number;
}

/** One pass over what is outside of strings. Of malformed text it says anything; JSON.parse refuses that. */
function survey(text: string, depthMax: number): Survey {
  let depth = 0;
  let wideNumbers = false;
  let members = 0;
  let values = 1;
  let widestMembers = 0;
  /** By depth: the members so far of the objects that are open. */
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

/** Fifteen digits always survive a double; more, or an exponent, has to be tried. */
function isWide(text: string, start: number, end: number): boolean {
  if (end - start === 1) return false;
  const source = text.slice(start, end);
  if (source.length <= 15 && !/[eE]/.test(source)) return false;
  return !sameNumber(source, String(Number(source)));
}
