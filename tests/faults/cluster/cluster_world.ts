// A whole installation: two servers on a store of a primary and a standby, and three ClickHouse nodes, with a warehouse of shards and one of
// copies, or with one that replicates (24.8 and a ZooKeeper); each process on a host of its own where the machine permits that. All of it ends
// with this process.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { eventually } from '../../deadline.ts';
import { createClusterWarehouse } from '../../engines/clickhouse/cluster_warehouse.ts';
import {
  clusterName,
  missingOldestVersion,
  startReplicatedRing,
} from '../../engines/clickhouse/replicated_ring/replicated_ring.ts';
import type { RingProcess } from '../../engines/clickhouse/replicated_ring/zookeeper.ts';
import { freePorts } from '../../engines/clickhouse/ring/free_ports.ts';
import { clusters, missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../../postgresql.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import type { Known } from '../injection/api.ts';
import { CheckedApi, PatientApi } from './checked_api.ts';
import { type Host, loopback, missingNamespaces, type Network, openNetwork } from './network.ts';
import { PostgresqlPair } from './postgresql_pair.ts';

/** Whether the nodes replicate. */
export type ClusterKind = 'unreplicated' | 'replicated';

/** The warehouses of an installation, named after their clusters. */
export const warehousesOf: Readonly<Record<ClusterKind, readonly string[]>> = {
  unreplicated: [clusters.copies, clusters.shards],
  replicated: [clusterName],
};
const missingNodes: Readonly<Record<ClusterKind, string | false>> = {
  unreplicated: missingRing,
  replicated: missingOldestVersion,
};
/** Why such an installation cannot be started; false if it can. */
export const missingCluster = (kind: ClusterKind): string | false => missingPostgresql || missingNodes[kind];

const nodeCount = 3;
const startMs = 30_000;
/** A node that returns within this time is stale until its former session has expired. */
const replicaSessionMs = 4000;
const serverNames = ['one', 'two'];
const nodeNames = Array.from({ length: nodeCount }, (_, index) => `node${index + 1}`);
const storeNames = ['store1', 'store2'];
const keeperName = 'keeper';
/** Requests of the warehouse wait for nothing longer than this, so that a fault is answered soon. */
const flags = [
  '--spare-engine=false',
  '--shutdown-timeout-ms=3000',
  `--log-level=${process.env.FAULTS_LOG ?? 'error'}`,
];

export class ClusterServer {
  readonly host: Host;
  readonly directory: string;
  readonly #flags: readonly string[];
  readonly #entry: URL | undefined;
  readonly #known: Known;
  /** Starts that did not succeed at once. Nothing else fails while a server starts, so that there should be none. */
  readonly failedStarts: string[] = [];
  #process: ServerProcess | undefined;
  #api: CheckedApi | undefined;
  #patientApi: PatientApi | undefined;

  constructor(
    host: Host,
    directory: string,
    {
      ownFlags,
      entry,
      known,
    }: { readonly ownFlags: readonly string[]; readonly entry?: URL | undefined; readonly known: Known },
  ) {
    this.#entry = entry;
    this.#known = known;
    this.host = host;
    this.directory = directory;
    this.#flags = ownFlags;
  }

  get api(): CheckedApi {
    if (this.#api === undefined) throw new Error(`the server ${this.host.name} was not started`);
    return this.#api;
  }

  get patientApi(): PatientApi {
    if (this.#patientApi === undefined) throw new Error(`the server ${this.host.name} was not started`);
    return this.#patientApi;
  }

  async start(): Promise<void> {
    const options = { enter: this.host.enter, entry: this.#entry };
    let last: unknown;
    // Like a service manager.
    const attempt = () =>
      startProcess([...flags, ...this.#flags], this.directory, options).catch((error: unknown) => {
        last = error;
        this.failedStarts.push(`${this.host.name} does not start: ${(error as Error).message}`);
        return undefined;
      });
    this.#process = await eventually('the server starts', attempt, startMs).catch((error) => {
      throw last ?? error;
    });
    const { stderr } = this.#process.child;
    if (process.env.FAULTS_LOG) stderr?.pipe(process.stderr);
    else if (stderr) explainDefects(this.host.name, stderr);
    // Its address stays the same, so that clients continue.
    this.#api ??= new CheckedApi(this.#process.url, this.#process.token, this.#known);
    this.#patientApi ??= new PatientApi(this.#process.url, this.#process.token, this.#known);
  }

  /** Whether it stopped itself, or was stopped. */
  get isStopped(): boolean {
    const pid = this.#process?.child.pid;
    return pid !== undefined && isStoppedProcess(pid);
  }

  async kill(): Promise<void> {
    this.#process?.child.kill('SIGKILL');
    await this.#process?.exited;
  }

  freeze(): void {
    this.#process?.child.kill('SIGSTOP');
  }

  signal(name: NodeJS.Signals): void {
    this.#process?.child.kill(name);
  }

  resume(): void {
    this.#process?.child.kill('SIGCONT');
  }

  async close(): Promise<void> {
    this.#api?.close();
    this.#patientApi?.close();
    await this.kill();
  }
}

/** Prints what a server logs of each answer with the status 500. */
function explainDefects(name: string, log: Readable): void {
  const lines = createInterface({ input: log });
  lines.on('line', (line) => {
    if (line.includes('"internalError"')) console.error(`${name}: ${line}`);
  });
}

function isStoppedProcess(pid: number): boolean {
  try {
    return /^\d+ \(.*\) T/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

export interface ClusterWorld {
  readonly network: Network;
  readonly servers: readonly ClusterServer[];
  readonly warehouses: readonly string[];
  readonly ring: Pick<Ring, 'nodes'>;
  /** In the order of the nodes of the ring. */
  readonly nodeHosts: readonly Host[];
  /** ZooKeeper, where the nodes replicate. */
  readonly keeper: { readonly process: RingProcess; readonly host: Host } | undefined;
  readonly store: PostgresqlPair;
  readonly storeHosts: readonly Host[];
  /** Files in it can be loaded. */
  readonly loadDirectory: string;
  readonly backupDirectory: string;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly kind?: ClusterKind | undefined;
  /** The module that starts the servers, instead of that of `npm start`. */
  readonly entry?: URL;
}

export async function startCluster({ kind = 'unreplicated', entry }: ClusterOptions = {}): Promise<ClusterWorld> {
  const names = [...serverNames, ...nodeNames, ...storeNames, keeperName];
  const network = missingNamespaces === false ? openNetwork(names) : loopback;
  const ends: (() => Promise<void> | void)[] = [() => network.close()];
  const close = async () => {
    for (const end of ends.reverse()) await end();
  };
  try {
    const directory = mkdtempSync(join(tmpdir(), 'tabularium-cluster-'));
    ends.push(() => rmSync(directory, { recursive: true, force: true }));
    const nodeHosts = nodeNames.map((name) => network.host(name));
    const storeHosts = storeNames.map((name) => network.host(name));
    const store = await PostgresqlPair.start(storeHosts);
    ends.push(() => store.close());
    const { ring, keeper, close: closeNodes } = await startNodes(kind, nodeHosts, network.host(keeperName));
    ends.push(closeNodes);
    const loadDirectory = join(directory, 'loads');
    const backupDirectory = join(directory, 'backups');
    for (const made of [loadDirectory, backupDirectory]) mkdirSync(made);
    const keyFile = join(directory, serverNames[0] as string, 'secret.key');
    const ports = await freePorts(serverNames.length);
    const clusterHosts = [...new Set(nodeHosts.map(({ address }) => address))];
    const known: Known = { position: 0 };
    const servers = serverNames.map((name, index) => {
      const host = network.host(name);
      const own = [
        `--store=${store.url}`,
        `--host=${host.address}`,
        `--port=${ports[index]}`,
        `--cluster-hosts=${clusterHosts.join(',')}`,
        `--load-directories=${loadDirectory}`,
        `--backup-directories=${backupDirectory}`,
        ...(host.enter.length > 0 ? ['--insecure=true'] : []),
        ...(index > 0 ? [`--secret-key-file=${keyFile}`] : []),
      ];
      return new ClusterServer(host, join(directory, name), { ownFlags: own, entry, known });
    });
    for (const server of servers) {
      ends.push(() => server.close());
      await server.start();
    }
    const { client } = (servers[0] as ClusterServer).api;
    const warehouses = warehousesOf[kind];
    for (const name of warehouses) await createClusterWarehouse(client, ring, { name, cluster: name });
    return {
      network,
      servers,
      warehouses,
      ring,
      nodeHosts,
      keeper,
      store,
      storeHosts,
      loadDirectory,
      backupDirectory,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function startNodes(kind: ClusterKind, hosts: readonly Host[], keeperHost: Host) {
  if (kind === 'unreplicated') {
    const ring = await startRing(nodeCount, { hosts });
    return { ring, keeper: undefined, close: () => ring.close() };
  }
  const options = { version: '24.8', sessionMs: replicaSessionMs, hosts, zookeeperHost: keeperHost } as const;
  const { servers, zookeeper, close } = await startReplicatedRing(options);
  return { ring: { nodes: servers }, keeper: { process: zookeeper, host: keeperHost }, close };
}
