// Clusters that replicate on this machine: servers of Debian's ClickHouse, which is of 2018 and shows the replication layer, or of the oldest
// version that warehouses may have (docs/engines.md), and a ZooKeeper. They end with this process, also when that is killed.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../deadline.ts';
import { oldestServerFiles } from '../ring/deployed_user.ts';
import { freePorts } from '../ring/free_ports.ts';
import { type RingHost, type RingNode, thisMachine } from '../ring/ring.ts';
import {
  endProcess,
  isRunning,
  missingZookeeper,
  newZookeeper,
  type RingProcess,
  type ZookeeperPlace,
} from './zookeeper.ts';

const program = '/usr/sbin/clickhouse-server';
const installedLibrary = '.venv/library/chdb/_chdb.cpython-311-x86_64-linux-gnu.so';
/** The library of the Python package `chdb` 3.1.2, which contains the server of 24.8.4.1 (CONTRIBUTING.md). */
const library = fileURLToPath(new URL(installedLibrary, import.meta.url));
const libraryProgram = fileURLToPath(new URL('server_of_library.py', import.meta.url));
const startMs = 60_000;
/** After which ZooKeeper drops what a killed server held; until then that server, restarted, is stale. */
const sessionMsDefault = 2000;

export interface RingOptions {
  /** By server: `[1, 1, 2]` are two replicas of the shard 1 and one of the shard 2. */
  readonly shards?: readonly number[];
  /** At most 10 s. */
  readonly sessionMs?: number;
  /** By default that of Debian, 18.16. `24.8` needs the library. */
  readonly version?: '18.16' | '24.8';
  /** Where each server runs, and ZooKeeper; by default on this machine. */
  readonly hosts?: readonly RingHost[];
  readonly zookeeperHost?: RingHost;
}

/** Why tests on such a cluster cannot run; false if they can. */
export const missingReplicatedRing: string | false =
  missingZookeeper ||
  (!existsSync(program) && 'ClickHouse of Debian is not installed (apt-get install clickhouse-server)');

/** Why tests on such a cluster of 24.8 cannot run; false if they can. */
export const missingOldestVersion: string | false =
  missingZookeeper ||
  (!existsSync(library) && 'the library with the server of ClickHouse 24.8 is not installed (CONTRIBUTING.md)');

/** The name of the cluster definition: one shard, of which each server is a replica. */
export const clusterName = 'replicated';

export interface RingServer extends RingNode {
  /** `r1`, the value of the macro `replica`. */
  readonly name: string;
  /** Deletes its data, as a new disk does. It must not run. */
  wipe(): void;
}

export interface ReplicatedRing {
  readonly servers: readonly RingServer[];
  readonly zookeeper: RingProcess;
  close(): Promise<void>;
}

const children = new Set<ChildProcess>();
const directories: string[] = [];
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

function track(child: ChildProcess): void {
  child.unref();
  children.add(child);
  child.once('exit', () => children.delete(child));
}

/** Starts the servers of a new ring; each answers when it resolves. */
export async function startReplicatedRing({
  shards = [1, 1, 1],
  sessionMs = sessionMsDefault,
  version = '18.16',
  hosts = [],
  zookeeperHost = thisMachine,
}: RingOptions = {}): Promise<ReplicatedRing> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-replicated-ring-'));
  directories.push(directory);
  const portsEach = 3;
  const [zookeeperPort = 0, ...ports] = await freePorts(1 + portsEach * shards.length);
  const places = shards.map((shard, index): Place => {
    const [httpPort = 0, nativePort = 0, interserverPort = 0] = ports.slice(portsEach * index);
    return { shard, name: `r${index + 1}`, host: hosts[index] ?? thisMachine, httpPort, nativePort, interserverPort };
  });
  const place = { host: zookeeperHost, port: zookeeperPort };
  const zookeeper = newZookeeper(join(directory, 'zookeeper'), place, track);
  const servers = places.map((each) =>
    newServer(join(directory, each.name), { place: each, places, zookeeper: place, sessionMs, version }),
  );
  await zookeeper.start();
  await Promise.all(servers.map((server) => server.start()));
  // ZooKeeper closes connections for a moment after it listens.
  await Promise.all(servers.map((server) => eventually('a server reaches ZooKeeper', () => reachesZookeeper(server))));
  return {
    servers,
    zookeeper,
    async close() {
      await Promise.all([...servers, zookeeper].map((each) => each.kill()));
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

const reachesZookeeper = ({ url }: RingServer): Promise<boolean> =>
  fetch(url, {
    method: 'POST',
    body: "SELECT count() FROM system.zookeeper WHERE path = '/'",
    signal: AbortSignal.timeout(5000),
  }).then(
    ({ ok }) => ok,
    () => false,
  );

interface Place {
  readonly shard: number;
  readonly name: string;
  readonly host: RingHost;
  readonly httpPort: number;
  readonly nativePort: number;
  readonly interserverPort: number;
}

interface ServerOptions {
  readonly place: Place;
  readonly places: readonly Place[];
  readonly zookeeper: ZookeeperPlace;
  readonly sessionMs: number;
  readonly version: '18.16' | '24.8';
}

function newServer(directory: string, options: ServerOptions): RingServer {
  const { place, version } = options;
  mkdirSync(directory, { recursive: true });
  const configFile = join(directory, 'config.xml');
  const logFile = join(directory, 'log');
  writeFileSync(configFile, serverConfig(directory, options));
  writeFileSync(join(directory, 'users.xml'), usersConfig);
  // 18.16 has no grants, and no warehouse.
  if (version === '24.8')
    for (const [path, text] of Object.entries(oldestServerFiles())) {
      mkdirSync(dirname(join(directory, path)), { recursive: true });
      writeFileSync(join(directory, path), text);
    }
  const command =
    version === '18.16' ? [program, `--config-file=${configFile}`] : ['python3', libraryProgram, library, configFile];
  const { address, enter } = place.host;
  const url = `http://${address}:${place.httpPort}`;
  let child: ChildProcess | undefined;
  return {
    name: place.name,
    url,
    get pid() {
      return child?.pid;
    },
    async kill() {
      await endProcess(child);
    },
    async start() {
      if (isRunning(child)) return;
      const log = openSync(logFile, 'a');
      // The kernel ends it when this process ends, however it ends.
      const [first = '', ...words] = [...enter, 'setpriv', '--pdeathsig=KILL', ...command];
      const started = spawn(first, words, {
        cwd: directory,
        stdio: ['ignore', log, log],
      });
      track(started);
      child = started;
      const isUp = async () => {
        if (started.exitCode !== null) throw new Error(`a ClickHouse server ended: ${readFileSync(logFile, 'utf8')}`);
        return fetch(`${url}/?query=SELECT+1`, { signal: AbortSignal.timeout(5000) }).then(
          ({ ok }) => ok,
          () => false,
        );
      };
      await eventually('a ClickHouse server answers', isUp, startMs);
    },
    freeze: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    wipe() {
      rmSync(join(directory, 'data'), { recursive: true, force: true });
    },
  };
}

function serverConfig(directory: string, { place: own, places, zookeeper, sessionMs, version }: ServerOptions): string {
  const shards = Map.groupBy(places, ({ shard }) => shard);
  const definitions = [...shards.values()].map((replicas) => {
    const each = replicas.map(
      ({ host, nativePort }) => `<replica><host>${host.address}</host><port>${nativePort}</port></replica>`,
    );
    return `<shard><internal_replication>true</internal_replication>${each.join('')}</shard>`;
  });
  return `<yandex>
  <path>${directory}/data/</path>
  <tmp_path>${directory}/data/tmp/</tmp_path>
  <user_files_path>${directory}/data/user_files/</user_files_path>
  <format_schema_path>${directory}/data/format_schemas/</format_schema_path>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>${own.host.address}</listen_host>
  <http_port>${own.httpPort}</http_port>
  <tcp_port>${own.nativePort}</tcp_port>
  <interserver_http_host>${own.host.address}</interserver_http_host>
  <interserver_http_port>${own.interserverPort}</interserver_http_port>
  <max_concurrent_queries>100</max_concurrent_queries>
  ${version === '18.16' ? '' : '<max_server_memory_usage>1500000000</max_server_memory_usage>'}
  <mark_cache_size>67108864</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <users_config>${directory}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <zookeeper>
    <node><host>${zookeeper.host.address}</host><port>${zookeeper.port}</port></node>
    <session_timeout_ms>${sessionMs}</session_timeout_ms>
    <operation_timeout_ms>2000</operation_timeout_ms>
  </zookeeper>
  <macros><shard>${own.shard}</shard><replica>${own.name}</replica></macros>
  <remote_servers><${clusterName}>${definitions.join('')}</${clusterName}></remote_servers>
  ${version === '18.16' ? oldTables : ''}
</yandex>
`;
}

/**
 * Of the tables of tests; those of warehouses have the first setting themselves. Without the second one, a server that is killed when it has
 * stored the only part of a table, and before ZooKeeper has, does not start again.
 */
const oldTables = `<merge_tree>
  <zookeeper_session_expiration_check_period>1</zookeeper_session_expiration_check_period>
  <replicated_max_ratio_of_wrong_parts>1</replicated_max_ratio_of_wrong_parts>
</merge_tree>`;

/** Hosts of tests with partitions have addresses for benchmarks of networks (RFC 2544). */
const usersConfig = `<yandex>
  <profiles><default>
    <max_memory_usage>500000000</max_memory_usage>
    <background_pool_size>4</background_pool_size>
  </default></profiles>
  <quotas><default></default></quotas>
  <users><default>
    <password></password>
    <networks><ip>127.0.0.1</ip><ip>198.18.0.0/15</ip></networks>
    <profile>default</profile>
    <quota>default</quota>
  </default></users>
</yandex>
`;
