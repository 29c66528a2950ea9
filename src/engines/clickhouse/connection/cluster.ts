// The servers of a warehouse as a cluster: which of them are available, and which shard each of them has.
import { Failure } from '../../../standard/failure.ts';
import type { DescribedBackend } from '../../cluster/registered_servers.ts';
import type { ClusterAccess, Replica } from '../../engine.ts';
import { wasLost } from '../../engine_lost.ts';
import { ClickHouseError, serverFailure } from './clickhouse_error.ts';
import { HttpServer } from './http_server.ts';
import type { ClickHouseCluster, ClickHouseServer } from './server.ts';

interface Member {
  readonly server: HttpServer;
  readonly location: string;
  /** From 1. */
  shard: number;
}

const probeTimeoutMs = 5000;
/** How long the list of registered servers is used before it is read again. */
const listMsMax = 1000;
const credentialsMsMax = 5000;
/** Errors of a server without Keeper or ZooKeeper: no such table, no such configuration. */
const withoutKeeper: readonly number[] = [60, 139];

export class Cluster implements ClickHouseCluster {
  readonly name: string;
  isReplicated = false;
  shardCount = 0;
  replicasOfShard = 0;
  readonly #access: ClusterAccess;
  readonly #members = new Map<string, Member>();
  #listed: { readonly backends: Promise<readonly DescribedBackend[]>; readonly at: number } | undefined;
  #credentials: { readonly value: ReturnType<ClusterAccess['credentials']>; readonly at: number } | undefined;
  #next = 0;

  constructor(access: ClusterAccess) {
    this.name = access.name;
    this.#access = access;
  }

  /** Asks the servers for the cluster. Throws 503 if none answers. */
  async open(): Promise<void> {
    await this.onAny(async (server) => {
      const call = { timeoutMs: probeTimeoutMs };
      const [shape] = await server.rows<{ shards: number; replicas: number }>({
        ...call,
        sql: 'SELECT max(shard_num) AS shards, max(replica_num) AS replicas FROM system.clusters WHERE cluster = {name:String}',
        parameters: { name: this.name },
      });
      if (!shape?.shards)
        throw new Failure(
          'WAREHOUSE_FAILED',
          'the servers know no cluster of the name of the warehouse',
          {},
          { outcome: 'notApplied' },
        );
      this.shardCount = shape.shards;
      this.replicasOfShard = shape.replicas;
      this.isReplicated = await server
        .text({ ...call, sql: `SELECT 1 FROM system.zookeeper WHERE path = '/' LIMIT 1` })
        .then(
          () => true,
          (error: unknown) => {
            if (error instanceof ClickHouseError && withoutKeeper.includes(error.code)) return false;
            throw error;
          },
        );
    });
    await Promise.allSettled((await this.#enabled()).map((member) => this.#probe(member)));
  }

  /** As of the last call to the server. */
  isAvailable(backend: string): boolean {
    return this.#members.get(backend)?.server.isReachable ?? false;
  }

  /** Null before the first call to the server. */
  versionOf(backend: string): string | null {
    return this.#members.get(backend)?.server.version || null;
  }

  async close(): Promise<void> {
    const members = [...this.#members.values()];
    this.#members.clear();
    this.#listed = undefined;
    await Promise.all(members.map(({ server }) => server.close()));
  }

  /** The registered servers that are not disabled. */
  async servers(): Promise<readonly ClickHouseServer[]> {
    return (await this.#enabled()).map(({ server }) => server);
  }

  /** The servers with each shard, in the order of shards. */
  async placement(): Promise<readonly (readonly Replica[])[]> {
    const members = await this.#enabled();
    return Array.from({ length: this.shardCount }, (_, index) =>
      members
        .filter(({ shard }) => this.shardCount === 1 || shard === index + 1)
        .map(({ server }) => ({ backend: server.name, isAvailable: server.isReachable })),
    );
  }

  async onAny<T>(work: (server: ClickHouseServer) => Promise<T>): Promise<T> {
    return await this.#onOneOf(await this.#enabled(), work);
  }

  async onEach<T>(work: (server: ClickHouseServer) => Promise<T>): Promise<T[]> {
    const members = await this.#enabled();
    if (members.length === 0) throw noServer();
    const settled = await Promise.allSettled(members.map(({ server }) => work(server)));
    return settled.map((result) => {
      if (result.status === 'rejected') throw serverFailure(result.reason);
      return result.value;
    });
  }

  async onEachShard<T>(work: (server: ClickHouseServer, shard: number) => Promise<T>): Promise<T[]> {
    const members = await this.#enabled();
    const shards = Array.from({ length: this.shardCount }, (_, index) => index + 1);
    const shardOf = new Map<Member, number>();
    for (const member of members) shardOf.set(member, await this.#shardOf(member).catch(() => 0));
    return await Promise.all(
      shards.map((shard) => {
        const replicas = members.filter((member) => shardOf.get(member) === shard);
        if (replicas.length === 0) throw noReplica(shard);
        return this.#onOneOf(replicas, (server) => work(server, shard));
      }),
    );
  }

  async #onOneOf<T>(members: readonly Member[], work: (server: ClickHouseServer) => Promise<T>): Promise<T> {
    if (members.length === 0) throw noServer();
    const first = this.#next++ % members.length;
    for (let attempt = 0; ; attempt++) {
      const { server } = members[(first + attempt) % members.length] as Member;
      try {
        return await work(server);
      } catch (error) {
        const failure = serverFailure(error);
        const isLast = attempt + 1 >= Math.max(2, members.length);
        const didNothing = failure instanceof Failure && failure.outcome === 'notApplied' && wasLost(failure);
        if (!didNothing || isLast) throw failure;
      }
    }
  }

  async #probe(member: Member): Promise<void> {
    await member.server.probe({ timeoutMs: probeTimeoutMs });
    await this.#shardOf(member);
  }

  async #shardOf(member: Member): Promise<number> {
    if (this.shardCount <= 1) return 1;
    if (member.shard > 0) return member.shard;
    const [own] = await member.server.rows<{ shard: string }>({
      sql: `SELECT toString(shard_num) AS shard FROM system.clusters WHERE cluster = {name:String} AND is_local
        UNION ALL SELECT substitution AS shard FROM system.macros WHERE macro = 'shard' LIMIT 1`,
      parameters: { name: this.name },
      timeoutMs: probeTimeoutMs,
    });
    member.shard = Number(own?.shard ?? 0) || 0;
    return member.shard;
  }

  async #enabled(): Promise<readonly Member[]> {
    const now = performance.now();
    if (!this.#listed || now - this.#listed.at > listMsMax)
      this.#listed = { backends: this.#access.backends(), at: now };
    const backends = await this.#listed.backends;
    return backends.filter(({ disabled }) => !disabled).map((backend) => this.#member(backend));
  }

  #member({ name, location }: DescribedBackend): Member {
    const known = this.#members.get(name);
    if (known?.location === location) return known;
    void known?.server.close();
    const server = new HttpServer({ name, url: location, credentials: () => this.#readCredentials() });
    const member = { server, location, shard: 0 };
    this.#members.set(name, member);
    return member;
  }

  #readCredentials(): ReturnType<ClusterAccess['credentials']> {
    const now = performance.now();
    if (!this.#credentials || now - this.#credentials.at > credentialsMsMax)
      this.#credentials = { value: this.#access.credentials(), at: now };
    return this.#credentials.value;
  }
}

const noServer = () => new Failure('NOT_ENOUGH_BACKENDS', 'the warehouse has no available backend');
const noReplica = (shard: number) =>
  new Failure('REPLICAS_UNAVAILABLE', `no replica of shard ${shard} is available`, { shard });
