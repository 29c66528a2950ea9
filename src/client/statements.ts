// SQL text as tokens, as far as it takes to find its statements and the names in them: strings, quoted names, comments and
// dollar-quoted texts may contain semicolons. Understands no grammar.
export interface Token {
  readonly kind: 'word' | 'name' | 'text' | 'number' | 'comment' | 'space' | 'symbol';
  readonly from: number;
  readonly to: number;
}

const patterns: readonly (readonly [Token['kind'], RegExp])[] = [
  ['space', /\s+/y],
  ['comment', /--[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/|$)/y],
  ['text', /'(?:[^']|'')*(?:'|$)|(\$[A-Za-z_]?\w*\$)[\s\S]*?(?:\1|$)/y],
  ['name', /"(?:[^"]|"")*(?:"|$)/y],
  ['number', /\d[\w.]*/y],
  ['word', /[\p{L}_][\p{L}\p{N}_$]*/uy],
];

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (let from = 0; from < text.length; ) {
    const token = tokenAt(text, from);
    tokens.push(token);
    from = token.to;
  }
  return tokens;
}

function tokenAt(text: string, from: number): Token {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = from;
    const match = pattern.exec(text);
    if (match) return { kind, from, to: from + match[0].length };
  }
  return { kind: 'symbol', from, to: from + 1 };
}

export interface StatementSpan {
  /** Of its first token that is neither space nor comment. */
  readonly from: number;
  /** Without the semicolon. */
  readonly to: number;
}

export function statementsOf(text: string): StatementSpan[] {
  const spans: StatementSpan[] = [];
  let from: number | undefined;
  let to = 0;
  const end = () => {
    if (from !== undefined) spans.push({ from, to });
    from = undefined;
  };
  for (const token of tokensOf(text)) {
    if (token.kind === 'symbol' && text[token.from] === ';') end();
    else if (token.kind !== 'space' && token.kind !== 'comment') {
      from ??= token.from;
      to = token.to;
    }
  }
  end();
  return spans;
}

/** The statement that a position is in, or after; the first one after it, if none is before. */
export function statementAt(text: string, position: number): StatementSpan | undefined {
  const spans = statementsOf(text);
  const following = spans.findIndex(({ from }) => from > position);
  const before = following < 0 ? spans.at(-1) : spans[following - 1];
  const next = following < 0 ? undefined : spans[following];
  if (!before || !next) return before ?? next;
  // On a later line than the one before it ends, the next statement is meant if it begins on this line.
  const lineEnd = text.indexOf('\n', position);
  const isOnLine = next.from < (lineEnd < 0 ? text.length : lineEnd);
  const isBeforeOver = text.slice(before.to, position).includes('\n');
  return isBeforeOver && isOnLine ? next : before;
}

/** A table that a statement names. */
export interface NamedTable {
  /** From the outside in: catalog, database, table, as far as they are given. */
  readonly path: readonly string[];
  readonly alias: string | undefined;
}

const unquote = (text: string): string =>
  text.startsWith('"') ? text.slice(1).replace(/"$/, '').replaceAll('""', '"') : text;
const beforeTables = new Set(['from', 'join', 'update', 'into']);
const afterTables = new Set(
  'where on using group order having limit offset union except intersect join inner left right full cross natural asof positional semi anti lateral set values select qualify window sample tablesample when returning and or'.split(
    ' ',
  ),
);

/** The tables after FROM, JOIN, UPDATE and INTO, and after commas in their lists, with their aliases. */
export function namedTables(sql: string): NamedTable[] {
  const tokens = tokensOf(sql).filter(({ kind }) => kind !== 'space' && kind !== 'comment');
  const textAt = (i: number): string => sql.slice(tokens[i]?.from ?? 0, tokens[i]?.to ?? 0);
  const isName = (i: number): boolean =>
    tokens[i]?.kind === 'name' || (tokens[i]?.kind === 'word' && !afterTables.has(textAt(i).toLowerCase()));
  const found: NamedTable[] = [];
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i]?.kind !== 'word' || !beforeTables.has(textAt(i).toLowerCase())) continue;
    do {
      if (!isName(i + 1)) break;
      const path = [unquote(textAt(++i))];
      while (textAt(i + 1) === '.' && tokens[i + 2]) {
        if (tokens[i + 2]?.kind === 'word' || tokens[i + 2]?.kind === 'name') path.push(unquote(textAt(i + 2)));
        i += 2;
      }
      if (textAt(i + 1).toLowerCase() === 'as') i++;
      found.push({ path, alias: isName(i + 1) ? unquote(textAt(++i)) : undefined });
    } while (textAt(i + 1) === ',' && ++i);
  }
  return found;
}

/** The parameters of a statement: how many `?` or the highest `$1`, or the names of `$name`. */
export function parametersOf(sql: string): { readonly count: number; readonly names: readonly string[] } {
  let questions = 0;
  let highest = 0;
  const names = new Set<string>();
  for (let from = 0; from < sql.length; ) {
    const named = /\$(\d+|[A-Za-z_]\w*)(?!\w*\$)/y;
    named.lastIndex = from;
    const match = named.exec(sql);
    if (match) {
      const name = match[1] as string;
      if (/^\d/.test(name)) highest = Math.max(highest, Number(name));
      else names.add(name);
      from += match[0].length;
      continue;
    }
    const token = tokenAt(sql, from);
    if (token.kind === 'symbol' && sql[from] === '?') questions++;
    from = token.to;
  }
  return { count: Math.max(questions, highest), names: [...names] };
}
