// Code as HTML with classes for comments, strings, numbers and keywords. An approximation that is sufficient for the short examples of the
// documentation.

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"]/g, (character) => escapes[character] as string);

interface Language {
  readonly comment?: RegExp;
  readonly string: RegExp;
  readonly keywords: string;
  readonly ignoresCase?: true;
}

const quoted = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/;
const languages: Readonly<Record<string, Language>> = {
  sh: {
    comment: /(?<=^|\s)#.*/,
    string: /"(?:[^"\\]|\\.)*"|'[^']*'/,
    keywords: 'curl export printf python3 node npm npx tabularium docker grep cut head tail tee cat jq',
  },
  ts: {
    comment: /\/\/.*|\/\*[\s\S]*?\*\//,
    string: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`/,
    keywords:
      'import from export const let new await async for of if else throw try catch return function type interface instanceof true false null undefined',
  },
  json: { string: quoted, keywords: 'true false null' },
  sql: {
    comment: /--.*/,
    string: /'(?:[^']|'')*'|"(?:[^"]|"")*"/,
    keywords:
      'select from where group by order having limit as on join left right inner cross insert into values update set delete merge using when matched then not and or in is null between like create table view primary key unique default with distinct union all case end cast over partition qualify returning exclude replace true false asc desc',
    ignoresCase: true,
  },
  python: {
    comment: /#.*/,
    string: quoted,
    keywords: 'import from as def return for in if else with print None True False not and or raise try except',
  },
};

export function highlighted(text: string, name: string): string {
  const language = languages[name];
  if (!language) return escapeHtml(text);
  const { comment, string, keywords, ignoresCase } = language;
  const word = new RegExp(`\\b(?:${keywords.split(' ').join('|')})\\b`);
  const parts = [
    ...(comment ? [`(?<comment>${comment.source})`] : []),
    `(?<string>${string.source})`,
    String.raw`(?<number>\b\d+(?:\.\d+)?\b)`,
    `(?<keyword>${word.source})`,
  ];
  const pattern = new RegExp(parts.join('|'), ignoresCase ? 'gim' : 'gm');
  let html = '';
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, found]) => found !== undefined) ?? ['plain'];
    html += `${escapeHtml(text.slice(end, match.index))}<span class="${kind}">${escapeHtml(match[0])}</span>`;
    end = match.index + match[0].length;
  }
  return html + escapeHtml(text.slice(end));
}
