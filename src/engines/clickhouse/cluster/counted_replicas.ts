// Which replicas count, for a server that picks the replicas of other shards by its definition of the cluster: that has also those that are
// disabled, that lack something that was acknowledged, or that are not registered.
import type { CountedReplicas } from '../connection/server.ts';
import type { Member } from './member.ts';

type Placed = Pick<Member, 'shard' | 'identity'>;

/** `available`: those that count. Undefined: the definition has no others. */
export function countedReplicas(available: readonly Placed[], on: Placed | undefined): CountedReplicas | undefined {
  const defined = available.map(({ identity }) => identity?.memberCount ?? Number.POSITIVE_INFINITY);
  if (available.length > 0 && available.length >= Math.max(...defined)) return undefined;
  return { ids: available.flatMap(({ identity }) => identity?.id ?? []), first: firstOf(available, on) };
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
