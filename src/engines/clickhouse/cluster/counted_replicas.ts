// Which replicas count, for a server that picks the replicas of other shards by its definition of the cluster: that has also those that are
// disabled, that lack something that was acknowledged, or that are not registered.
import type { ClickHouseServer, CountedReplicas, StoredNames } from '../connection/server.ts';
import { pathInKeeper, replicasInKeeper } from '../replication/keeper.ts';
import { pathOfTable, tableOfPath } from '../replication/replicated_tables.ts';
import type { Member } from './member.ts';

type Placed = Pick<Member, 'shard' | 'identity'>;
type Registered = Placed & Pick<Member, 'isAvailable' | 'isDecommissioned'>;

const callMs = 5000;

/** `members`: the registered ones. Undefined: the definition has no others than those that count. */
export function countedReplicas(members: readonly Registered[], on: Placed | undefined): CountedReplicas | undefined {
  const available = members.filter(({ isAvailable }) => isAvailable);
  if (isWhole(available) && members.every((member) => member.isAvailable || member.isDecommissioned)) return undefined;
  return { ids: available.flatMap(({ identity }) => identity?.id ?? []), first: firstOf(available, on) };
}

/**
 * Whether these are all of the definition. One that it does not have can be registered by its macros, and has no position. Where no server knows its
 * own, all are taken for such that it has.
 */
function isWhole(available: readonly Placed[]): boolean {
  const defined = available.map(({ identity }) => identity?.memberCount ?? Number.POSITIVE_INFINITY);
  const placed = available.filter(({ identity }) => identity?.position !== undefined);
  const count = placed.length > 0 ? placed.length : available.length;
  return count > 0 && count >= Math.max(...defined);
}

function firstOf(available: readonly Placed[], on: Placed | undefined): number | undefined {
  // A server that recognizes itself in the definition reads its own rows.
  const own = on?.identity?.position === undefined ? undefined : on.shard;
  const picked = available.filter(({ shard }) => shard !== own);
  const positions = [...Map.groupBy(picked, ({ shard }) => shard).values()].map(
    (replicas) => new Set(replicas.flatMap(({ identity }) => identity?.position ?? [])),
  );
  const common = positions.reduce((all, some) => all.intersection(some), positions[0] ?? new Set<number>());
  return common.size === 0 ? undefined : Math.min(...common) - 1;
}

/** Registered servers that may be picked although they do not count. One that is decommissioned has no tables. */
export const uncountedOf = <M extends Registered>(members: readonly M[]): readonly M[] =>
  members.filter(({ isAvailable, isDecommissioned }) => !isAvailable && !isDecommissioned);

/**
 * Whether one of the uncounted servers may have another table by this name: it has no replica of this one, which was created without it, and may
 * have missed that a former one lost the name. Rows that it was given would be lost.
 */
export async function mayHaveOtherTable(
  server: ClickHouseServer,
  { database, localTable }: StoredNames,
  uncounted: readonly Placed[],
): Promise<boolean> {
  const path = await pathInKeeper(server, { database, table: localTable }, callMs);
  const uuid = path === undefined ? undefined : tableOfPath(path)?.uuid;
  // An insert finds no table of this product either.
  if (uuid === undefined) return false;
  const haveReplica = uncounted.map(async ({ shard, identity }) => {
    const replicas = await replicasInKeeper(server, `${pathOfTable(uuid)}/${shard}`, callMs);
    return identity !== undefined && replicas.includes(identity.replica);
  });
  return (await Promise.all(haveReplica)).includes(false);
}
