// Asks a server in its cheapest way whether a table still has the definition that an analysis found. A row of system.tables takes a server more
// than twice as long (bench/clickhouse.ts): it lists and formats what nobody needs here.
import { ClickHouseError } from '../connection/clickhouse_error.ts';
import type { ClickHouseServer, StoredNames } from '../connection/server.ts';
import { qualifiedName } from '../sql/identifiers.ts';
import { analysisTimeoutMs } from '../sql/statement_limits.ts';
import { createQueryOf, type StoredObject } from './stored_objects.ts';

/** Texts, names in quotes, words and single characters, without what is between them. */
const partPattern = /'(?:[^'\\]|\\[\s\S]|'')*'|`(?:[^`\\]|\\[\s\S]|``)*`|"(?:[^"\\]|\\[\s\S]|"")*"|[\p{L}\p{N}_]+|\S/gu;

export class ShownDefinitions {
  /** Of each object as an analysis found it, the text that a server showed and that was found to say the same. */
  readonly #texts = new WeakMap<StoredObject, string>();

  /** False: the server has another definition, or cannot tell. */
  async isCurrent(server: ClickHouseServer, object: StoredObject): Promise<boolean> {
    const text = await shownBy(server, object.stored);
    if (text === undefined) return false;
    if (text === this.#texts.get(object)) return true;
    if (!isSameStatement(text, createQueryOf(object))) return false;
    this.#texts.set(object, text);
    return true;
  }
}

/** Undefined if the server shows none. */
export async function shownBy(
  server: ClickHouseServer,
  table: Pick<StoredNames, 'database' | 'table'>,
): Promise<string | undefined> {
  try {
    return await server.text({
      sql: `SHOW CREATE TABLE ${qualifiedName(table)}\nFORMAT TSVRaw`,
      timeoutMs: analysisTimeoutMs,
    });
  } catch (error) {
    if (error instanceof ClickHouseError) return undefined;
    throw error;
  }
}

/** Whether two texts differ only in the white space between their parts. */
export function isSameStatement(one: string, other: string): boolean {
  const [parts, otherParts] = [one, other].map((text) => text.match(partPattern) ?? []);
  return parts?.length === otherParts?.length && !!parts?.every((part, i) => part === otherParts?.[i]);
}
