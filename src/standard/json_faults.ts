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
  escapeOrFault.lastIndex = at + 1;
  for (;;) {
    const found = escapeOrFault.exec(text);
    if (!found || found.index >= end) return end + 1;
    if (found[0].length === 1) return undefined;
  }
}

type Expecting = 'value' | 'valueOrEnd' | 'key' | 'keyOrEnd' | 'colon' | 'comma' | 'nothing';

/** The offset of the first fault, if there is one. */
export function faultIn(text: string): { readonly offset: number; readonly kind: 'grammar' | 'repeated' } | undefined {
  /** Of each open object the names so far; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  let expecting: Expecting = 'value';
  let at = 0;
  const ended = (): Expecting => (open.length > 0 ? 'comma' : 'nothing');
  for (;;) {
    const start = endOf(space, text, at) as number;
    if (start === text.length && expecting === 'nothing') return undefined;
    const isString = text[start] === '"';
    const markEnd = endOf(mark, text, start);
    const end = isString ? soundStringEnd(text, start) : (markEnd ?? endOf(scalar, text, start));
    const grammar = { offset: start, kind: 'grammar' } as const;
    if (end === undefined || expecting === 'nothing') return grammar;
    at = end;
    const sign = markEnd === undefined ? undefined : text[start];
    const names = open.at(-1);
    if (sign === (names ? '}' : ']') && (expecting === 'comma' || expecting === (names ? 'keyOrEnd' : 'valueOrEnd'))) {
      if (open.length === 0) return grammar;
      open.pop();
      expecting = ended();
    } else if (expecting === 'colon') {
      if (sign !== ':') return grammar;
      expecting = 'value';
    } else if (expecting === 'comma') {
      if (sign !== ',') return grammar;
      expecting = names ? 'key' : 'value';
    } else if (expecting === 'key' || expecting === 'keyOrEnd') {
      if (!isString) return grammar;
      const name = JSON.parse(text.slice(start, end)) as string;
      if (names?.has(name)) return { offset: start, kind: 'repeated' };
      names?.add(name);
      expecting = 'colon';
    } else if (sign === '{' || sign === '[') {
      open.push(sign === '{' ? new Set() : undefined);
      expecting = sign === '{' ? 'keyOrEnd' : 'valueOrEnd';
    } else if (sign !== undefined) return grammar;
    else expecting = ended();
  }
}
