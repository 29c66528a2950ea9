// Which names in a text stand where a table can be named. Read off the text, because a statement that cannot be bound has no
// plan; more names than there are tables, never fewer. What a statement that can be bound means is its plan's to say (plan.ts).
import { contentOf, tokensOf } from './statement_text.ts';

/** After these a table is named. */
const before = new Set(
  'FROM USING JOIN INTO UPDATE TABLE ONLY LATERAL SUMMARIZE DESCRIBE DESC SHOW PIVOT PIVOT_WIDER PIVOT_LONGER UNPIVOT'.split(
    ' ',
  ),
);
/** After these more than one: commas go on. */
const lists = new Set(['FROM', 'USING', 'JOIN']);
/** These end such a list. All are reserved: none can be the name of something in it. */
const ends = new Set(['WHERE', 'HAVING', 'WINDOW', 'QUALIFY', 'LIMIT', 'OFFSET', 'SELECT', 'RETURNING']);
/** These too, before BY. */
const endsBeforeBy = new Set(['GROUP', 'ORDER']);
const noTable = new Set([...ends, ...endsBeforeBy, ...lists, 'WITH', 'LATERAL', 'ONLY', 'ON', 'AS', 'NATURAL']);
/** Functions whose arguments may have a FROM between them. */
const withFrom = new Set(['EXTRACT', 'SUBSTRING', 'TRIM', 'OVERLAY', 'POSITION']);

interface Level {
  list: boolean;
  readonly isCall: boolean;
}

const isPart = (text: string) => /^(?:["'$]|[eE]'|[\p{L}_]|[\u0080-\u{10ffff}])/u.test(text) && text !== '$';

/** Each name in its parts, root first, as it is written: `c.d.t`, `d.t` or `t`. */
export function tableNamesIn(sql: string): string[][] {
  const tokens = [...tokensOf(sql)].map(({ text }) => text);
  const names: string[][] = [];
  const levels: Level[] = [{ list: false, isCall: false }];
  let expecting = false;
  for (let i = 0; i < tokens.length; i++) {
    const text = tokens[i] as string;
    const level = levels.at(-1) as Level;
    if (isPart(text)) {
      const first = i;
      while (tokens[i + 1] === '.' && isPart(tokens[i + 2] ?? '')) i += 2;
      const word = first === i ? text.toUpperCase() : '';
      if (expecting && !noTable.has(word)) names.push(partsOf(tokens.slice(first, i + 1)));
      if (ends.has(word) || (endsBeforeBy.has(word) && tokens[i + 1]?.toUpperCase() === 'BY')) level.list = false;
      expecting = before.has(word) && !(level.isCall && word === 'FROM');
      if (expecting && lists.has(word)) level.list = true;
    } else if (text === '(' || text === '[' || text === '{') {
      const isTable: boolean = text === '(' && expecting;
      levels.push({ list: isTable, isCall: text === '(' && withFrom.has(tokens[i - 1]?.toUpperCase() ?? '') });
      expecting = isTable;
    } else if (text === ')' || text === ']' || text === '}') {
      if (levels.length > 1) levels.pop();
      expecting = false;
    } else if (text === ';') {
      levels.splice(0, levels.length, { list: false, isCall: false });
      expecting = false;
      // A colon: an alias may stand before what it is for.
    } else expecting = (text === ',' || text === ':') && level.list;
  }
  return names;
}

function partsOf(tokens: readonly string[]): string[] {
  return tokens.filter((_, i) => i % 2 === 0).map((text) => (/^(?:["'$]|[eE]')/.test(text) ? contentOf(text) : text));
}
