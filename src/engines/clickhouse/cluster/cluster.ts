// The servers of a warehouse as a cluster: which of them are available, which shard each of them has, and on which of them work runs.

import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import type { ServerIdentity } from '../../../model/records.ts';
import type { HostAllowlist } from '../../../outbound/host_allowlist.ts';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import type { DescribedBackend } from '../../cluster/registered_servers.ts';
import type { ReplicaFinding } from '../../cluster/replica_notices.ts';
import { wasLost } from '../../engine_lost.ts';
import type { Replica } from '../../port/backends.ts';
import type { ClusterAccess, EngineWarehouseOptions } from '../../port/engine.ts';
import type { TableName } from '../../port/refs.ts';
import { isUncounted, picksMax, serverFailure } from '../connection/clickhouse_error.ts';
import type {
  ClickHouseCluster,
  ClickHouseServer,
  CountedReplicas,
  OnAnyOptions,
  OnEachOptions,
  StoredNames,
  TakeOverOptions,
} from '../connection/server.ts';
import type { OwnsDatabase } from '../owned_databases.ts';
import { AlteredTables } from './altered_tables.ts';
import { CatchUp, type CatchUpOptions } from './catch_up.ts';
import { countedReplicas, mayHaveOtherTable, uncountedOf } from './counted_replicas.ts';
import { CachedCredentials } from './credentials.ts';
import { DisabledReplicas } from './disabled_replicas.ts';
import { Health } from './health.ts';
import { Member } from './member.ts';
import { MissingTables } from './missing_tables.ts';
import { ReadTracker } from './read_tracker.ts';

export interface ClusterOptions {
  readonly hosts: HostAllowlist | undefined;
  /** Whether a database belongs to this warehouse. */
  readonly owns: () => Promise<OwnsDatabase>;
  /** See `CatchUpOptions`. */
  readonly completeLeft: (signal: AbortSignal) => Promise<number>;
  /** See `CatchUpOptions`. */
  readonly exchangeRecords?: CatchUpOptions['exchangeRecords'];
  /** See `EngineWarehouseOptions`. */
  readonly definedObject?: EngineWarehouseOptions['definedObject'];
}

/** How long a start, a change of the registered servers, or a statement that found a shard lost, waits until they were checked. */
const firstCheckMs = 5000;
const lacksRows = 'it lacks rows that other replicas have';
/** How long a change waits for a replica that is catching up. */
const catchingUpMs = 2000;

export class Cluster implements ClickHouseCluster {
  readonly name: string;
  readonly #access: ClusterAccess;
  readonly #options: ClusterOptions;
  readonly #credentials: CachedCredentials;
  readonly #health: Health;
  readonly #missingTables: MissingTables;
  readonly disabledReplicas = new DisabledReplicas(() =>
    this.isReplicated && this.shardCount > 1
      ? this.members().filter(({ isDisabled, isDecommissioned }) => isDisabled && !isDecommissioned)
      : [],
  );
  readonly #members = new Map<string, Member>();
  #refreshing: Promise<void> = Promise.resolve();
  #isOpen = false;
  #withdrawals = 0;

  constructor(access: ClusterAccess, options: ClusterOptions) {
    this.name = access.name;
    this.#access = access;
    this.#options = options;
    this.#credentials = new CachedCredentials(() => access.credentials());
    const definedObject = async (name: TableName) => options.definedObject?.(name);
    const catchUp = new CatchUp({
      members: () => this.members(),
      owns: options.owns,
      completeLeft: options.completeLeft,
      exchangeRecords: options.exchangeRecords ?? (async () => undefined),
      definedObject,
      isReplicated: () => this.isReplicated,
      notices: access.notices,
    });
    this.#health = new Health({
      cluster: access.name,
      catchUp: (member, signal) => catchUp.run(member, signal),
      stillComplete: (member) => catchUp.stillComplete(member),
      followNames: (member) => catchUp.followNames(member),
      compareTables: (member) => {
        void this.#missingTables.compareWith(member);
        void alteredTables.compareWith(member);
      },
    });
    const comparison = {
      definedObject,
      available: () => this.#available(),
      follow: async () => access.notices?.follow(),
      lose: (member: Member, message: string) => {
        member.lose(message);
        void this.#health.check(member);
      },
    };
    this.#missingTables = new MissingTables(comparison);
    const alteredTables = new AlteredTables({ ...comparison, isReplicated: () => this.isReplicated });
  }

  /** Begins to watch the registered servers. Resolves when each of them was checked, or after 5 s. */
  async open(): Promise<void> {
    this.#isOpen = true;
    await this.refresh();
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    this.#health.stop();
    const members = this.members();
    this.#members.clear();
    await Promise.all(members.map((member) => member.close()));
  }

  /** Reads the registered servers and the credentials again. Resolves as `open`. */
  async refresh(): Promise<void> {
    const before = this.#refreshing;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#refreshing = promise;
    await before;
    try {
      if (this.#isOpen) await this.#refresh();
    } finally {
      resolve();
    }
  }

  async #refresh(): Promise<void> {
    this.#credentials.expire();
    const backends = await this.#readBackends();
    if (!this.#isOpen) return;
    this.#credentials.forgetKnown();
    const names = new Set(backends.map(({ name }) => name));
    for (const [name, member] of this.#members)
      if (!names.has(name)) {
        this.#members.delete(name);
        void member.close();
      }
    for (const backend of backends) this.#update(backend);
    await this.#checkAll();
  }

  /** Resolves when each member was checked, or after 5 s. */
  async #checkAll(): Promise<void> {
    await withTimeout(this.#health.watch(this.members()), firstCheckMs, { ref: false });
  }

  /** What was read before a withdrawal may say that the server is enabled. */
  async #readBackends(): Promise<readonly DescribedBackend[]> {
    for (;;) {
      const withdrawals = this.#withdrawals;
      const backends = await this.#access.backends();
      if (withdrawals === this.#withdrawals) return backends;
    }
  }

  /** Without waiting for a check of other servers, as a refresh does. */
  withdraw(backends: readonly string[]): void {
    for (const name of backends) {
      const member = this.#members.get(name);
      if (!member || member.isDisabled) continue;
      member.isDisabled = true;
      this.#withdrawals++;
    }
  }

  #update(backend: DescribedBackend): void {
    const { name, location, disabled } = backend;
    const known = this.#members.get(name);
    if (known && known.location === location) {
      if (known.isDisabled && !disabled) known.lose('it was enabled and has not been checked yet');
      known.isDisabled = disabled;
      known.isDecommissioned = backend.decommissioned ?? false;
      return;
    }
    void known?.close();
    const member = new Member(backend, {
      warehouseId: this.#access.warehouseId,
      credentials: () => this.#credentials.get(),
      hosts: this.#options.hosts,
      lost: (lost) => void this.#health.check(lost),
      missingFailure: (error, sql) => this.#missingTables.failureOf(error, sql),
    });
    this.#members.set(name, member);
  }

  members(): Member[] {
    return [...this.#members.values()];
  }

  member(backend: string): Member | undefined {
    return this.#members.get(backend);
  }

  get isReplicated(): boolean {
    const identities = this.#identities();
    return identities.length > 0 && identities.every(({ replicates }) => replicates);
  }

  /** 0 before any server has answered. */
  get shardCount(): number {
    return this.#identities()[0]?.shardCount ?? 0;
  }

  get replicasOfShard(): number {
    return this.#identities()[0]?.replicaCount ?? 0;
  }

  get writesMany(): boolean {
    if (this.isReplicated) return this.shardCount > 1;
    return this.#enabled().length + this.#disabledCopies() > 1;
  }

  /**
   * Whether each registered server has all rows of the warehouse, by what is stored of the servers as of now and by what they said last: there is
   * one shard, and its servers replicate, or there is one server in all. A server that does not replicate may be missing in the definition of
   * the cluster, so that it is sent no rows.
   */
  async eachHasAllRows(): Promise<boolean> {
    const backends = await this.#access.backends();
    const identities = backends.flatMap(({ name, server }) => [server, this.#members.get(name)?.identity]);
    const known = identities.filter((identity) => identity !== undefined);
    if (backends.length !== this.#members.size || known.some(({ shardCount }) => shardCount !== 1)) return false;
    const live = this.members().map(({ identity }) => identity);
    return (
      live.every((identity) => identity?.replicates) ||
      (live.length === 1 && live[0] !== undefined && live[0].memberCount === 1)
    );
  }

  /** Of the enabled servers, if there are any: that of another one may be out of date. */
  #identities(): ServerIdentity[] {
    const identities = (members: readonly Member[]) => members.flatMap(({ identity }) => identity ?? []);
    const current = identities(this.#enabled());
    return current.length > 0 ? current : identities(this.members());
  }

  countedReplicas({ name }: Pick<ClickHouseServer, 'name'>): CountedReplicas | undefined {
    if (!this.isReplicated || this.shardCount <= 1) return undefined;
    return countedReplicas(this.members(), this.member(name));
  }

  /** Whether rows that are inserted through the Distributed table may be given to another table of its name, on a server that does not count. */
  async mayPickOtherTable(names: StoredNames): Promise<boolean> {
    const uncounted = this.isReplicated && this.shardCount > 1 ? uncountedOf(this.members()) : [];
    if (uncounted.length === 0) return false;
    return this.onAny((server) => mayHaveOtherTable(server, names, uncounted), { isWhole: true });
  }

  requireAllCopies(): void {
    const disabled = this.#disabledCopies();
    if (disabled > 0) throw notEnough(this.#enabled().length + disabled, this.#available().length);
  }

  /** The number of disabled servers that the others still write to, because their definition of the cluster has them. */
  #disabledCopies(): number {
    if (this.isReplicated) return 0;
    const enabled = this.#enabled();
    const disabled = this.members().length - enabled.length;
    const defined = this.#identities().map(
      ({ memberCount, shardCount, replicaCount }) => memberCount ?? shardCount * replicaCount,
    );
    return Math.max(0, Math.min(disabled, Math.max(0, ...defined) - enabled.length));
  }

  /** The registered servers that are not disabled. */
  async servers(): Promise<readonly ClickHouseServer[]> {
    return this.#enabled().map(({ counted }) => counted);
  }

  /** Those that take statements, in the order in which they are asked. Throws 503 if there is none. */
  availableServers(): readonly ClickHouseServer[] {
    const available = this.#available();
    if (available.length === 0) throw notEnough(1, 0);
    const least = this.#leastLoaded(available);
    return [...available].sort((a, b) => Number(b === least) - Number(a === least)).map(({ counted }) => counted);
  }

  async takeOver(
    follow: (server: ClickHouseServer) => Promise<void>,
    { from, shard }: TakeOverOptions = {},
  ): Promise<number> {
    const { notices } = this.#access;
    const replicas = this.#enabled().filter(
      (member) => member.counted !== from && (shard === undefined || member.shard === shard),
    );
    if (replicas.some(({ isAvailable }) => !isAvailable)) await notices?.follow().catch(asUnknown);
    // A server that starts to read a replica after this point finds the change when it checks the replica.
    const read = replicas.filter(({ isAvailable, exclusion }) => isAvailable || !exclusion);
    const followed = await Promise.all(read.map((member) => takesOver(member, follow)));
    const behind = read.filter((_, index) => !followed[index]);
    if (behind.length > 0) {
      const exclusion = (notices?.publishBehind(behind.map(({ name }) => name)) ?? Promise.resolve()).catch(asUnknown);
      for (const member of behind) {
        if (member.availability !== 'unavailable') member.lose(lacksRows);
        member.exclusion = exclusion;
        exclusion.catch(() => {
          if (member.exclusion === exclusion) member.exclusion = undefined;
        });
      }
    }
    // Exclusions that other changes have published.
    await Promise.all(replicas.map(({ exclusion }) => exclusion));
    return read.length - behind.length;
  }

  replicaChanged(backend: string, finding: ReplicaFinding): void {
    const member = this.#members.get(backend);
    if (!member) return;
    if (finding === 'reading') member.exclusion = undefined;
    else if (member.availability !== 'unavailable') member.lose(lacksRows);
  }

  /** The servers with each shard, in the order of shards. */
  async placement(): Promise<readonly (readonly Replica[])[]> {
    return Array.from({ length: this.shardCount }, (_, index) =>
      this.members()
        .filter(({ shard }) => shard === index + 1)
        .map(({ name, isAvailable }) => ({ backend: name, isAvailable })),
    );
  }

  #enabled(): Member[] {
    return this.members().filter(({ isDisabled }) => !isDisabled);
  }

  #available(): Member[] {
    return this.members().filter(({ isAvailable }) => isAvailable);
  }

  /** Takes servers out of use that lack a table with rows, if another replica of the shard has it. */
  async loseLacking(lacking: readonly ClickHouseServer[]): Promise<void> {
    const found = this.#available().map((member) => {
      const hasAll = !lacking.includes(member.counted);
      return { member, hasAll, hasRows: hasAll };
    });
    await this.#missingTables.lose(found);
  }

  async onAny<T>(work: (server: ClickHouseServer) => Promise<T>, options: OnAnyOptions = {}): Promise<T> {
    return this.#onOneOf(() => this.#readers(), work, options);
  }

  /** The servers for which a replica that counts is known for each other shard, if there are any. */
  #readers(): Member[] {
    const available = this.#available();
    const fitting = available.filter(({ counted }) => this.countedReplicas(counted)?.first !== undefined);
    return fitting.length > 0 ? fitting : available;
  }

  async onEach<T>(
    work: (server: ClickHouseServer) => Promise<T>,
    { isBegunWork = false, withoutDisabled = false }: OnEachOptions = {},
  ): Promise<T[]> {
    if (!withoutDisabled) this.requireAllCopies();
    const enabled = this.#enabled();
    const available = enabled.filter((member) => member.isAvailable || (isBegunWork && member.takesBegunWork));
    if (enabled.length === 0 || available.length < enabled.length)
      throw notEnough(Math.max(1, enabled.length), available.length);
    const settled = await Promise.allSettled(available.map(({ counted }) => work(counted)));
    return settled.map((result) => {
      if (result.status === 'rejected') throw serverFailure(result.reason);
      return result.value;
    });
  }

  async onEachShard<T>(work: (server: ClickHouseServer, shard: number) => Promise<T>): Promise<T[]> {
    this.#requireShards();
    return Promise.all(
      this.#shards().map((shard) =>
        this.#onOneOf(
          () => this.#replicasOf(shard),
          (server) => work(server, shard),
          { shard },
        ),
      ),
    );
  }

  availableOfShards(): readonly (readonly ClickHouseServer[])[] {
    this.#requireShards();
    return this.#shards().map((shard) => this.#replicasOf(shard).map(({ counted }) => counted));
  }

  #requireShards(): void {
    if (this.shardCount === 0) throw notEnough(1, 0);
    const missing = this.#missingShards();
    if (missing.length > 0) throw noReplica(missing);
  }

  #shards(): number[] {
    return Array.from({ length: this.shardCount }, (_, index) => index + 1);
  }

  #replicasOf(shard: number): Member[] {
    return this.#available().filter((member) => member.shard === shard);
  }

  #missingShards(): number[] {
    return this.#shards().filter((shard) => this.#replicasOf(shard).length === 0);
  }

  /**
   * Runs on the server with the least load, and once more on another one if the first is lost, has done nothing or only read, and has not
   * answered anything or `work` is whole. Likewise if the server has picked a replica that does not count.
   */
  async #onOneOf<T>(
    candidates: () => readonly Member[],
    work: (server: ClickHouseServer) => Promise<T>,
    { shard, isWhole = false, isUnread, avoided = new Set() }: OnAnyOptions & { readonly shard?: number },
  ): Promise<T> {
    let failed: Member | undefined;
    for (let picks = 1; ; ) {
      const left = candidates().filter((candidate) => candidate !== failed);
      if (left.every(({ name }) => avoided.has(name))) avoided.clear();
      const member = this.#leastLoaded(left.filter(({ name }) => !avoided.has(name)));
      if (!member) throw failed || shard === undefined ? notEnough(1, 0) : noReplica([shard]);
      const tracker = new ReadTracker(member.counted);
      try {
        return await work(tracker.server);
      } catch (error) {
        // What a server says of one that it reads comes with the rows.
        const failure = (await this.#missingTables.failureOf(error, '')) ?? serverFailure(error);
        // A server has noticed the loss of a shard before its check did. Afterwards it is known which shard that is.
        if (failure instanceof Failure && failure.code === 'REPLICAS_UNAVAILABLE' && failure.outcome === undefined) {
          await this.#checkAll();
          const missing = this.#missingShards();
          if (missing.length > 0) throw noReplica(missing);
          const mayRead = tracker.hasOnlyRead && (isWhole || (isUnread?.() ?? !tracker.hasBytes));
          if (isUncounted(error)) avoided.add(member.name);
          if (!mayRead || !isUncounted(error) || picks++ >= picksMax) throw failure;
          continue;
        }
        if (failed || !wasLost(failure) || !(failure instanceof Failure)) throw failure;
        const mayRepeat = failure.outcome === 'notApplied' || tracker.hasOnlyRead;
        const others = candidates().filter((candidate) => candidate !== member);
        if (!mayRepeat || (tracker.hasBytes && !isWhole) || others.length === 0) throw failure;
        failed = member;
      }
    }
  }

  #leastLoaded(members: readonly Member[]): Member | undefined {
    // Servers with the same load are picked at random: taking turns, statements with as many calls each as there are servers would all meet the same one.
    const offset = Math.floor(Math.random() * members.length);
    let least: Member | undefined;
    for (let index = 0; index < members.length; index++) {
      const member = members[(index + offset) % members.length] as Member;
      if (!least || member.load < least.load) least = member;
    }
    return least;
  }
}

/** Whether a replica has taken over a change; one that does not count yet is not waited for as long. */
async function takesOver(member: Member, follow: (server: ClickHouseServer) => Promise<void>): Promise<boolean> {
  if (!member.isAvailable && !member.answers) return false;
  const following = follow(member.counted).then(
    () => true,
    () => false,
  );
  if (member.isAvailable) return following;
  return (await withTimeout(following, catchingUpMs, { ref: false })) ?? false;
}

/** What was changed is not acknowledged, and stays. */
function asUnknown(error: unknown): never {
  throw withOutcome(error, 'unknown');
}

function notEnough(needed: number, available: number): Failure {
  const message = `the request needs ${needed} available backends and ${available} are available`;
  return new Failure('NOT_ENOUGH_BACKENDS', message, { needed, available }, { outcome: 'notApplied' });
}

function noReplica(shards: readonly number[]): Failure {
  const tabletIds = shards.map(String);
  const message = `no available replica of the tablets ${tabletIds.join(', ')}`;
  return new Failure('REPLICAS_UNAVAILABLE', message, { tablets: tabletIds.map((tabletId) => ({ tabletId })) });
}
