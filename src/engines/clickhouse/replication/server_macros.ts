// The macros of a server, which say which replica of which shard it has.
import type { ClickHouseServer } from '../connection/server.ts';

/** Throws if the server has no such macro. */
export async function macroOf(server: ClickHouseServer, name: 'replica' | 'shard', timeoutMs: number): Promise<string> {
  const sql = `SELECT substitution FROM system.macros WHERE macro = '${name}'`;
  const [row] = await server.rows<{ substitution: string }>({ sql, timeoutMs });
  if (!row) throw new Error(`a server has no macro ${name}`);
  return row.substitution;
}
