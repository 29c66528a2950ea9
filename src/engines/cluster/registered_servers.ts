// The part of the engine port for engines that run on a cluster of servers, which callers register as backends. How tables are divided
// and replicated among the servers is the business of the engine.
import type { ServerIdentity } from '../../model/records.ts';
import { Failure } from '../../standard/failure.ts';
import type { ReplicaFinding } from './replica_notices.ts';

/** `catchingUp`: it responds, but does not have all tables and rows yet. */
export type Availability = 'available' | 'catchingUp' | 'unavailable';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** A server that a caller wants to register. */
export interface Candidate {
  readonly location: string;
  /** The name by which it knows the cluster. */
  readonly cluster: string;
  readonly credentials: Credentials;
  /** The servers that are registered already. */
  readonly registered: readonly ServerIdentity[];
}

/** The same for all warehouses of an engine. */
export interface ClusterEngine {
  /**
   * Checks a server before it is registered, and changes nothing there. Throws HOST_NOT_ALLOWED, REMOTE_UNAVAILABLE if it does not respond
   * within 10 s, and BACKEND_UNSUITABLE.
   */
  probe(candidate: Candidate, options: { readonly signal: AbortSignal }): Promise<ServerIdentity>;
  /** Whether anything answers at the URL of a server within 10 s. True also if that cannot be found out. */
  responds(location: string): Promise<boolean>;
}

/** Why a decommission cannot end yet. See the record of a backend. */
export interface DrainBlocker {
  readonly reason: 'lastReplica' | 'runningQueries' | 'writtenByCluster' | 'unreachable';
  /** `catalog`, `database` and `table`, if it is a tablet. */
  readonly table: { readonly catalog: string; readonly database: string; readonly table: string } | null;
  readonly tabletId: string | null;
  readonly message: string;
}

export interface DrainState {
  /** The number of tablets of which the server has a replica. */
  readonly remainingTablets: number;
  readonly runningQueries: number;
  readonly blockers: readonly DrainBlocker[];
}

export interface DropOptions {
  readonly signal: AbortSignal;
  /** Called before each database is dropped. Throws if its tables are not to be dropped any more: whoever decides that calls `endDrops` then. */
  readonly confirm: () => Promise<void>;
}

/** The servers of one warehouse. Backends are meant by their names. */
export interface RegisteredServers {
  /** Reads the registered servers again. Call it after one was registered, changed or deleted. */
  refresh(): Promise<void>;
  /** No statement is sent to these servers any more, from now on until `refresh` finds them enabled. */
  withdraw(backends: readonly string[]): void;
  /** Processes a notice of a server that shares the metadata store, which may be this one. */
  replicaChanged(backend: string, finding: ReplicaFinding): void;
  /** As the server describes itself now; undefined if it has not answered yet. */
  identityOf(backend: string): ServerIdentity | undefined;
  /** What the server still has and what keeps it from being decommissioned, checked now on all servers. */
  drainState(backend: string, options: { readonly signal: AbortSignal }): Promise<DrainState>;
  /** Cancels the statements of the warehouse that run on a server. @returns their ids: one that takes long to end is there again in the next call; none while the server does not respond. */
  cancelStatements(backend: string, options: { readonly signal: AbortSignal }): Promise<readonly string[]>;
  /**
   * Drops all tables of this product on a server. Call it only if `drainState` has no blockers. Idempotent. Throws 503 if the server does not
   * drop them now, and CHANGE_IN_PROGRESS if another server of this product has called `dropTables` or `endDrops` meanwhile, or if a table has
   * no other replica any more.
   */
  dropTables(backend: string, options: DropOptions): Promise<void>;
  /**
   * Whatever a call of `dropTables` on another server of this product does afterwards, nothing is dropped. Throws 503 if the backend does not
   * respond; CHANGE_IN_PROGRESS if something is still being dropped there.
   */
  endDrops(backend: string): Promise<void>;
  /** The number of tables of this product on a server, counted now. Throws REMOTE_UNAVAILABLE. */
  tableCount(backend: string, options: { readonly signal: AbortSignal }): Promise<number>;
}

/** What is stored of a backend, as the runtime needs it. */
export interface DescribedBackend {
  readonly name: string;
  readonly disabled: boolean;
  /** It is disabled and has no tables any more. */
  readonly decommissioned?: boolean;
  readonly location: string;
  readonly server?: ServerIdentity | undefined;
}

/** What all registered servers have in common; undefined before the first one. Disabled ones may be out of date. */
export function layoutOf(
  all: readonly Pick<DescribedBackend, 'server' | 'disabled'>[],
): { readonly shardCount: number; readonly replicaCount: number; readonly replicates: boolean } | undefined {
  const servers = all.flatMap(({ server, disabled }) => (server && !disabled ? server : []));
  if (servers.length === 0) servers.push(...all.flatMap(({ server }) => server ?? []));
  const [first] = servers;
  if (!first) return undefined;
  return {
    shardCount: first.shardCount,
    replicaCount: first.replicaCount,
    replicates: servers.every(({ replicates }) => replicates),
  };
}

export const tabletIdOf = (shard: number): string => String(shard);

/** The number of available replicas of each tablet by its id: all tables are divided in the same way. */
export function replicasByTablet(
  backends: readonly DescribedBackend[],
  isAvailable: (backend: DescribedBackend) => boolean,
): ReadonlyMap<string, number> {
  const { shardCount = 1 } = layoutOf(backends) ?? {};
  const counts = new Map(Array.from({ length: shardCount }, (_, index) => [tabletIdOf(index + 1), 0]));
  for (const backend of backends) {
    if (!backend.server || !isAvailable(backend)) continue;
    const id = tabletIdOf(backend.server.shard);
    counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}

/** `tables`: their full names. `tabletIds`: of each of them. Names no server. */
export function replicasUnavailable(tables: readonly string[], tabletIds: readonly string[]): Failure {
  const names = [...new Set(tables)];
  const which = tabletIds.length === 1 ? `tablet ${tabletIds[0]}` : `tablets ${tabletIds.join(', ')}`;
  return new Failure('REPLICAS_UNAVAILABLE', `no available replica of ${which} of ${names.join(', ')}`, {
    tables: names,
    tablets: names.flatMap((table) => tabletIds.map((tabletId) => ({ table, tabletId }))),
  });
}
