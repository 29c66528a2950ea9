// Where JSON text is at fault: the place at which it departs from the grammar, or names a member twice. Only for text that was
// refused already; one pass, linear in its length whatever it holds.

export interface Place {
  /** From 1. */
  readonly line: number;
  readonly column: number;
}

export function placeAt(text: string, offset: number): Place {
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

const space = /[\t\n\r ]*/y;
const mark = /[{}[\],:]/y;
const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w))/y;
const escapeOrFault = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|[\u0000-\u001f\\]/g;

function endOf(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

/** The end of the string that begins at `at`; undefined where it is none. */
function soundStringEnd(text: string, at: number): number | undefined {
  const end = stringEnd(text, at);
  if (end === text.length) return undefined;
  // Of the string alone: a search in the whole text would go on to its end where nothing is found.
  for (const [found] of text.slice(at + 1, end).matchAll(escapeOrFault)) if (found.length === 1) return undefined;
  return end + 1;
}

type Expecting = 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'colon' | 'comma' | 'nothing';

/** The offset of the first member whose name its object has already, in text that is JSON. */
export function repeatedNameIn(text: string): number | undefined {
  /** Of each open object the names so far; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  /** The set of the object whose member's name comes next. */
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

/** The offset at which text departs from the grammar, if it does. */
export function faultIn(text: string): number | undefined {
  const open: ('{' | '[')[] = [];
  let expecting: Expecting = 'value';
  let at = 0;
  const ended = (): Expecting => (open.length > 0 ? 'comma' : 'nothing');
  for (;;) {
    const start = endOf(space, text, at) as number;
    if (start === text.length && expecting === 'nothing') return undefined;
    const isString = text[start] === '"';
    const markEnd = endOf(mark, text, start);
    const end = isString ? soundStringEnd(text, start) : (markEnd ?? endOf(scalar, text, start));
    if (end === undefined || expecting === 'nothing') return start;
    at = end;
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
