// Locates errors in JSON text: the offset of a syntax error or of a duplicate member name. Used only for rejected text; one pass, linear in
// its length for any content.

export interface TextPosition {
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

export function positionAt(text: string, offset: number): TextPosition {
  let line = 1;
  let start = 0;
  for (let end = text.indexOf('\n'); end >= 0 && end < offset; end = text.indexOf('\n', start)) {
    line++;
    start = end + 1;
  }
  return { line, column: offset - start + 1 };
}

/** The offset of the closing quote of the string that opens at `start`, or the text's length. */
export function stringEnd(text: string, start: number): number {
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

const whitespace = /[\t\n\r ]*/y;
const punctuator = /[{}[\],:]/y;
const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))/y;
const escapeOrInvalid = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|[\u0000-\u001f\\]/g;

function endOf(pattern: RegExp, text: string, offset: number): number | undefined {
  pattern.lastIndex = offset;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

/** The end of the string that starts at `start`; undefined when it is not valid. */
function validStringEnd(text: string, start: number): number | undefined {
  const end = stringEnd(text, start);
  if (end === text.length) return undefined;
  // Searches a slice: a search in the whole text would continue to its end when nothing is found.
  for (const [found] of text.slice(start + 1, end).matchAll(escapeOrInvalid)) if (found.length === 1) return undefined;
  return end + 1;
}

type Expecting = 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'colon' | 'comma' | 'nothing';

/** The offset of the first duplicate member name in valid JSON. */
export function duplicateNameOffset(text: string): number | undefined {
  /** The names so far of each open object; undefined for arrays. */
  const open: (Set<string> | undefined)[] = [];
  /** The names of the object whose member name is expected next. */
  let names: Set<string> | undefined;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) {
      const end = stringEnd(text, i);
      if (names) {
        const source = text.slice(i, end + 1);
        const name = source.includes('\\') ? (JSON.parse(source) as string) : source.slice(1, -1);
        if (names.has(name)) return i;
        names.add(name);
        names = undefined;
      }
      i = end;
    } else if (c === 123 || c === 91) {
      names = c === 123 ? new Set() : undefined;
      open.push(names);
    } else if (c === 125 || c === 93) {
      open.pop();
      names = undefined;
    } else if (c === 44) names = open.at(-1);
  }
  return undefined;
}

/** The offset of the first syntax error, if there is one. */
export function syntaxErrorOffset(text: string): number | undefined {
  const open: ('{' | '[')[] = [];
  let expecting: Expecting = 'value';
  let offset = 0;
  const ended = (): Expecting => (open.length > 0 ? 'comma' : 'nothing');
  for (;;) {
    const start = endOf(whitespace, text, offset) as number;
    if (start === text.length && expecting === 'nothing') return undefined;
    const isString = text[start] === '"';
    const markEnd = endOf(punctuator, text, start);
    const end = isString ? validStringEnd(text, start) : (markEnd ?? endOf(scalar, text, start));
    if (end === undefined || expecting === 'nothing') return start;
    offset = end;
    const sign = markEnd === undefined ? undefined : text[start];
    const isObject = open.at(-1) === '{';
    if (
      sign === (isObject ? '}' : ']') &&
      (expecting === 'comma' || expecting === (isObject ? 'keyOrEnd' : 'valueOrEnd'))
    ) {
      if (open.length === 0) return start;
      open.pop();
      expecting = ended();
    } else if (expecting === 'colon') {
      if (sign !== ':') return start;
      expecting = 'value';
    } else if (expecting === 'comma') {
      if (sign !== ',') return start;
      expecting = isObject ? 'key' : 'value';
    } else if (expecting === 'key' || expecting === 'keyOrEnd') {
      if (!isString) return start;
      expecting = 'colon';
    } else if (sign === '{' || sign === '[') {
      open.push(sign);
      expecting = sign === '{' ? 'keyOrEnd' : 'valueOrEnd';
    } else if (sign !== undefined) return start;
    else expecting = ended();
  }
}
