// The proof that a server can leave a cluster: each of its tablets is complete on another server that counts.
import type { ClickHouseServer } from '../connection/server.ts';
import { atOnce } from './at_once.ts';
import { activeParts, catchUp } from './catch_up.ts';
import { partsInKeeper, replicasInKeeper } from './keeper.ts';
import { missingParts } from './parts.ts';
import { healthTimeoutMs, type ReplicaState, replicaStates } from './replica_states.ts';
import { pathOfTable, type ReplicatedTable } from './replicated_tables.ts';

export interface DecommissionBlocker {
  readonly database: string;
  readonly table: string;
  readonly shard: string;
  readonly reason: 'no other replica' | 'no other replica has caught up' | 'Keeper is not available';
}

export interface DecommissionOptions {
  /** The name of the server's replicas in Keeper: the value of its macro `replica`. It may be down. */
  readonly replica: string;
  /** The value of its macro `shard`. */
  readonly shard: string;
  /** The tables of which it has a tablet. */
  readonly tables: readonly ReplicatedTable[];
  /** The servers that remain and count, without it. */
  readonly remaining: readonly ClickHouseServer[];
  /** For each table. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** The tablets that keep a server from leaving; none: it can leave. Asks nothing of the server that leaves. */
export async function decommissionBlockers(options: DecommissionOptions): Promise<DecommissionBlocker[]> {
  const replicas = await Promise.all(
    options.remaining.map(async (server) => {
      const states = await replicaStates(server, healthTimeoutMs).catch((): ReplicaState[] => []);
      return { server, states };
    }),
  );
  const blockers = await atOnce(options.tables, async (table): Promise<DecommissionBlocker | undefined> => {
    const path = `${pathOfTable(table.uuid)}/${options.shard}`;
    const others = replicas.flatMap(({ server, states }) => {
      const state = states.find((each) => each.path === path && each.replica !== options.replica);
      return state ? { server, state } : [];
    });
    const reason = await blockerOf(table, path, others, options);
    return reason && { database: table.database, table: table.localTable, shard: options.shard, reason };
  });
  return blockers.flatMap((blocker) => blocker ?? []);
}

interface OtherReplica {
  readonly server: ClickHouseServer;
  readonly state: ReplicaState;
}

async function blockerOf(
  table: ReplicatedTable,
  path: string,
  others: readonly OtherReplica[],
  { replica, remaining, timeoutMs, signal }: DecommissionOptions,
): Promise<DecommissionBlocker['reason'] | undefined> {
  if (others.length === 0) return 'no other replica';
  let isKeeperAway = false;
  for (const { server, state } of others) {
    const peers = remaining.filter((peer) => peer !== server);
    try {
      const isRegistered = (await replicasInKeeper(server, path, timeoutMs)).includes(replica);
      const needed = isRegistered ? await partsInKeeper(server, path, replica, timeoutMs) : [];
      const expected = [{ ...table, database: state.database, localTable: state.table }];
      if ((await catchUp(server, { expected, peers, timeoutMs, signal })).length > 0) continue;
      const present = await activeParts(server, state, timeoutMs);
      const missing = missingParts(needed, present);
      if (missing.length === 0) return undefined;
      // Merged or dropped meanwhile, unless the replica that leaves still has them.
      const stillNeeded = isRegistered ? await partsInKeeper(server, path, replica, timeoutMs) : [];
      if (missing.every((name) => missingParts([name], stillNeeded).length > 0)) return undefined;
    } catch {
      isKeeperAway = true;
    }
  }
  return isKeeperAway ? 'Keeper is not available' : 'no other replica has caught up';
}
