// JSON in and out, exactly: numbers that a double cannot hold are kept as JSON.rawJSON objects, which JSON.stringify writes
// back to the letter. Malformed text is a Failure with line and column (rest-standard B2).
import { Failure } from './failure.ts';

export const jsonDepthMax = 128;

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
  // Before parsing: a reviver overflows the stack on text that nests a hundred thousand deep.
  const { tooDeepAt, wideNumbers } = survey(text, depthMax);
  if (tooDeepAt !== undefined) throw malformed(text, tooDeepAt, `nesting is at most ${depthMax} deep`);
  try {
    // A reviver makes parsing eight times as slow, and almost every text can do without.
    return wideNumbers ? JSON.parse(text, keepExact) : JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw malformed(text, faultOffset(text), 'this is not JSON');
  }
}

function keepExact(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number' || context.source === undefined) return value;
  const { source } = context;
  if (Number.isSafeInteger(value) && /^-?\d+$/.test(source)) return value;
  return sameNumber(source, String(value)) ? value : JSON.rawJSON(source);
}

/** Whether two decimal texts mean the same number: equal digits and exponent after zeros are taken off. */
function sameNumber(a: string, b: string): boolean {
  return a === b || plain(a) === plain(b);
}

function plain(text: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  return `${sign}${significant}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

function malformed(text: string, offset: number, what: string): Failure {
  const before = text.slice(0, offset);
  const line = before.split('\n').length;
  const column = offset - before.lastIndexOf('\n');
  return new Failure('MALFORMED_JSON', `${what} at line ${line}, column ${column}`, { line, column });
}

interface Survey {
  /** The offset at which nesting passes the limit. */
  readonly tooDeepAt?: number;
  /** Whether a double would change a number of the text. */
  readonly wideNumbers: boolean;
}

/** One pass over what is outside of strings. Of malformed text it says anything; JSON.parse refuses that. */
function survey(text: string, depthMax: number): Survey {
  let depth = 0;
  let wideNumbers = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) {
      i = stringEnd(text, i);
    } else if (c === 123 || c === 91) {
      if (++depth > depthMax) return { tooDeepAt: i, wideNumbers };
    } else if (c === 125 || c === 93) {
      depth--;
    } else if (c >= 48 && c <= 57) {
      const end = numberEnd(text, i);
      wideNumbers ||= isWide(text, i, end);
      i = end - 1;
    }
  }
  return { wideNumbers };
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
  const source = text.slice(start, end);
  if (source.length <= 15 && !/[eE]/.test(source)) return false;
  return !sameNumber(source, String(Number(source)));
}

/** The offset of the closing quote of the string that opens at `start`, or the text's length. */
function stringEnd(text: string, start: number): number {
  let end = start + 1;
  for (;;) {
    end = text.indexOf('"', end);
    if (end < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 92) slashes++;
    if (slashes % 2 === 0) return end;
    end++;
  }
}

const token =
  /[\t\n\r ]*(?:([{}[\],:])|"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))/y;

const space = /[\t\n\r ]*/y;

type Expecting = 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'colon' | 'comma' | 'nothing';

/** Where text that JSON.parse refused first departs from the grammar. The engine's own message does not always say. */
function faultOffset(text: string): number {
  const open: ('{' | '[')[] = [];
  let expecting: Expecting = 'value';
  let at = 0;
  const closed = (): Expecting => (open.length > 0 ? 'comma' : 'nothing');
  for (;;) {
    space.lastIndex = at;
    const start = at + (space.exec(text)?.[0].length ?? 0);
    token.lastIndex = at;
    const match = token.exec(text);
    if (!match || expecting === 'nothing') return start;
    at = token.lastIndex;
    const mark = match[1];
    const isString = mark === undefined && text[start] === '"';
    if (expecting === 'colon') {
      if (mark !== ':') return start;
      expecting = 'value';
    } else if (expecting === 'comma') {
      if (mark === (open.at(-1) === '{' ? '}' : ']')) {
        open.pop();
        expecting = closed();
      } else if (mark === ',') expecting = open.at(-1) === '{' ? 'key' : 'value';
      else return start;
    } else if (expecting === 'key' || expecting === 'keyOrEnd') {
      if (isString) expecting = 'colon';
      else if (mark === '}' && expecting === 'keyOrEnd') {
        open.pop();
        expecting = closed();
      } else return start;
    } else if (mark === '{' || mark === '[') {
      open.push(mark);
      expecting = mark === '{' ? 'keyOrEnd' : 'valueOrEnd';
    } else if (mark === ']' && expecting === 'valueOrEnd') {
      open.pop();
      expecting = closed();
    } else if (mark !== undefined) return start;
    else expecting = closed();
  }
}
