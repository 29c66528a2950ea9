// Tables that Keeper knows a server to have and the server lacks: what a lost disk looks like when no other server is there to compare with.
import type { ClickHouseServer } from '../connection/server.ts';
import { parentsInKeeper, replicasInKeeper } from './keeper.ts';
import { replicaStates } from './replica_states.ts';
import { isTableUuid, pathOfTable } from './replicated_tables.ts';

/**
 * @param replica the value of the server's macro `replica`. @param shard of its macro `shard`.
 * @returns the UUIDs of the tables of which its replica is registered and which it does not have under any name.
 */
export async function lostTables(
  server: ClickHouseServer,
  { replica, shard, timeoutMs }: { readonly replica: string; readonly shard: string; readonly timeoutMs: number },
): Promise<string[]> {
  const present = new Set((await replicaStates(server, timeoutMs)).map(({ uuid }) => uuid));
  const lost: string[] = [];
  // A table that was dropped leaves an empty node for ever.
  for (const uuid of await parentsInKeeper(server, '/tabularium', timeoutMs)) {
    if (!isTableUuid(uuid) || present.has(uuid)) continue;
    const registered = await replicasInKeeper(server, `${pathOfTable(uuid)}/${shard}`, timeoutMs);
    if (registered.includes(replica)) lost.push(uuid);
  }
  return lost;
}
