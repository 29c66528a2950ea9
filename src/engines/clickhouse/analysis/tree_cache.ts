// Asks servers for the trees of queries, and keeps what they name: it depends on the text alone.
import type { ClickHouseServer } from '../connection/server.ts';
import { analysisTimeoutMs, statementLimits } from '../sql/statement_limits.ts';
import { type NamedInTree, TreeReader } from './query_tree.ts';

/** Precedes the text of a query whose tree is read. */
export const treePrefix = 'EXPLAIN QUERY TREE run_passes = 0 SELECT * FROM (\n';
const treeSuffix = '\n)';

/** For calls that only read the text of a statement. */
export const analysisSettings = {
  readonly: 1,
  max_query_size: 4 * statementLimits.characters,
  max_parser_depth: 1000,
  max_parser_backtracks: 1_000_000,
  max_ast_depth: 1000,
  max_ast_elements: 200_000,
  max_memory_usage: 1_000_000_000,
  max_result_rows: statementLimits.treeLines,
  max_result_bytes: statementLimits.treeBytes,
  result_overflow_mode: 'throw',
} as const;

const cachedTextsMax = 2_000;
/** Longer texts are seldom repeated. */
const cachedCharactersMax = 20_000;
const linesPerTurn = 2_000;

export interface TreeCall {
  readonly text: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export class QueryTrees {
  readonly #known = new Map<string, NamedInTree>();

  /** Throws ClickHouseError, ForbiddenName, SQL_INVALID or SQL_NOT_SUPPORTED. `isOwn`: a stored view, whose functions were checked. */
  async namedIn(server: ClickHouseServer, { text, parameters, signal }: TreeCall, isOwn = false): Promise<NamedInTree> {
    const key = `${isOwn}${text}`;
    const known = this.#known.get(key);
    if (known) return known;
    const reader = new TreeReader({ isOwn });
    await readLines(await treeOf(server, { text, parameters, signal }), (line) => reader.read(line));
    const named = reader.end();
    if (text.length <= cachedCharactersMax) {
      if (this.#known.size >= cachedTextsMax) this.#known.delete(this.#known.keys().next().value as string);
      this.#known.set(key, named);
    }
    return named;
  }
}

/** The lines of a tree as one text. */
export async function treeOf(server: ClickHouseServer, { text, parameters, signal }: TreeCall): Promise<string> {
  return await server.text({
    sql: `${treePrefix}${text}${treeSuffix}\nFORMAT TSVRaw`,
    parameters,
    settings: analysisSettings,
    timeoutMs: analysisTimeoutMs,
    isOfCaller: true,
    signal,
  });
}

/** Passes on the lines without holding the event loop. */
async function readLines(text: string, read: (line: string) => void): Promise<void> {
  let count = 0;
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start);
    const stop = end < 0 ? text.length : end;
    if (stop > start) read(text.slice(start, stop));
    start = stop + 1;
    if (++count % linesPerTurn === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}
