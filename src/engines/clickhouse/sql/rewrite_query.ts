// Rewrites the text of a caller for the servers: names of tables, parameters and what dialect.ts replaces. Comments become spaces, so that
// lines and columns stay.
import type { StatementParameters } from '../../port/statements.ts';
import { callerParameter, type DialectContext, dialectReplacements } from './dialect.ts';
import { foldedName, quoteIdentifier } from './identifiers.ts';
import { typeParameters } from './parameters.ts';
import { type Replacement, type RewrittenText, rewriteText } from './rewritten_text.ts';
import type { NamedTable, ScannedNames } from './table_names.ts';
import { isName, nameOf, type Token } from './tokens.ts';

/**
 * Common table expressions get this prefix, so that no use of one that ClickHouse resolves in another way can name a table of the
 * database in which the statement runs.
 */
export const commonTablePrefix = 'tabularium_cte_';

/** Catalog, database and table: a name of more parts is no table. */
const namePartsMax = 3;

export interface RewriteOptions extends DialectContext {
  readonly parameters: StatementParameters | undefined;
  /** Parameters without a value are null. */
  readonly isUnknownNull?: boolean;
  /** The quoted name on the servers of a table at its place in the text. */
  readonly qualifiedName: (table: NamedTable) => string;
}

export class RewrittenStatement {
  readonly #sql: string;
  readonly #tokens: readonly Token[];
  readonly #replacements: readonly Replacement[];
  /** Values of the parameters of the rewritten text. */
  readonly parameters: Readonly<Record<string, string>>;

  constructor(sql: string, tokens: readonly Token[], names: ScannedNames, options: RewriteOptions) {
    const typed = typeParameters(tokens, options.parameters, { isUnknownNull: options.isUnknownNull ?? false });
    const dialect = dialectReplacements(sql, tokens, options);
    const renamed = nameReplacements(tokens, names, options.qualifiedName);
    const covered = new Set(renamed.map(({ start }) => start));
    this.#sql = sql;
    this.#tokens = tokens;
    this.#replacements = [
      ...blanks(sql, tokens),
      ...typed.replacements,
      ...dialect.replacements.filter(({ start }) => !covered.has(start)),
      ...renamed,
    ];
    this.parameters = {
      ...typed.values,
      ...(dialect.usesCaller && options.caller !== undefined
        ? { [callerParameter]: escapeCaller(options.caller) }
        : {}),
    };
  }

  /** The text of the tokens from `first` up to, without, `end`. */
  text(
    { first, end }: { readonly first: number; readonly end: number } = { first: 0, end: this.#tokens.length },
  ): RewrittenText {
    const from = this.#tokens[first];
    const to = this.#tokens[end - 1];
    return rewriteText(this.#sql, this.#replacements, [from?.start ?? 0, to?.end ?? 0]);
  }
}

const escapeCaller = (name: string) => name.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n');

function nameReplacements(
  tokens: readonly Token[],
  { tables, commonTables }: ScannedNames,
  qualifiedName: (table: NamedTable) => string,
): Replacement[] {
  const replacements: Replacement[] = commonTables.map(({ index, declared, isUse, hasAlias }) => {
    const { start, end, ...token } = tokens[index] as Token;
    const alias = isUse && !hasAlias ? ` AS ${quoteIdentifier(nameOf({ start, end, ...token }))}` : '';
    return { start, end, text: `${quoteIdentifier(commonTablePrefix + declared)}${alias}` };
  });
  /** The names by which columns can be qualified: those of tables without an alias, as written. */
  const aliases = new Map<string, string>();
  const places = new Set<number>(commonTables.map(({ index }) => index));
  for (const table of tables) {
    const name = table.parts.at(-1) as string;
    const alias = table.hasAlias ? '' : ` AS ${quoteIdentifier(name)}`;
    const start = (tokens[table.first] as Token).start;
    const end = (tokens[table.last] as Token).end;
    replacements.push({ start, end, text: `${qualifiedName(table)}${alias}` });
    places.add(table.first);
    if (!table.hasAlias && table.parts.length <= namePartsMax) aliases.set(chainKey(table.parts), name);
  }
  const lengthMax = Math.max(0, ...[...aliases.keys()].map((key) => JSON.parse(key).length as number));
  if (lengthMax === 0) return replacements;
  for (let i = 0; i < tokens.length; i++) {
    if (!isName(tokens[i])) continue;
    const chain: string[] = [];
    let last = i;
    chain.push(nameOf(tokens[i] as Token));
    while (tokens[last + 1]?.text === '.' && isName(tokens[last + 2])) {
      last += 2;
      chain.push(nameOf(tokens[last] as Token));
    }
    const isStar = tokens[last + 1]?.text === '.' && tokens[last + 2]?.text === '*';
    if (!places.has(i))
      for (let n = Math.min(lengthMax, isStar ? chain.length : chain.length - 1); n > 0; n--) {
        const alias = aliases.get(chainKey(chain.slice(0, n)));
        if (alias === undefined) continue;
        const end = (tokens[i + 2 * (n - 1)] as Token).end;
        replacements.push({ start: (tokens[i] as Token).start, end, text: quoteIdentifier(alias) });
        break;
      }
    i = last;
  }
  return replacements;
}

const chainKey = (parts: readonly string[]) => JSON.stringify(parts.map(foldedName));

/** What is between tokens, if it is more than spaces and line breaks. */
function blanks(sql: string, tokens: readonly Token[]): Replacement[] {
  const found: Replacement[] = [];
  let end = tokens[0]?.start ?? 0;
  for (const token of tokens) {
    if (token.start > end) {
      const gap = sql.slice(end, token.start);
      if (/[^ \n]/.test(gap)) found.push({ start: end, end: token.start, text: gap.replace(/[^\n]/g, ' ') });
    }
    end = token.end;
  }
  return found;
}
