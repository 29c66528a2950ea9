// Clusters that replicate on this machine: servers of Debian's ClickHouse, which is of 2018 and shows the replication layer, or of the oldest
// version that warehouses may have (docs/engines.md), and a ZooKeeper. They end with this process, also when that is killed.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../deadline.ts';
import { skippedFor } from '../../../skipped_in_ci.ts';
import { freePorts } from '../ring/free_ports.ts';
import { endProcess, isRunning, missingZookeeper, newZookeeper, type RingProcess } from './zookeeper.ts';

const program = '/usr/sbin/clickhouse-server';
/** The library of the Python package `chdb` 3.1.2, which contains the server of 24.8.4.1 (CONTRIBUTING.md). */
const library = process.env.CLICKHOUSE_SERVER_LIBRARY ?? '';
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
}

/** Why tests on such a cluster cannot run; false if they can. */
export const missingReplicatedRing: string | false =
  missingZookeeper ||
  (!existsSync(program) && 'ClickHouse of Debian is not installed (apt-get install clickhouse-server)');

/** Why tests on such a cluster of 24.8 cannot run; false if they can. */
export const missingOldestVersion: string | false = skippedFor('CLICKHOUSE_SERVER_LIBRARY') || missingZookeeper;

/** The name of the cluster definition: one shard, of which each server is a replica. */
export const clusterName = 'replicated';

export interface RingServer extends RingProcess {
  /** `r1`, the value of the macro `replica`. */
  readonly name: string;
  /** Of its HTTP interface. */
  readonly url: string;
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
}: RingOptions = {}): Promise<ReplicatedRing> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-replicated-ring-'));
  directories.push(directory);
  const portsEach = 3;
  const [zookeeperPort = 0, ...ports] = await freePorts(1 + portsEach * shards.length);
  const places = shards.map((shard, index): Place => {
    const [httpPort = 0, nativePort = 0, interserverPort = 0] = ports.slice(portsEach * index);
    return { shard, name: `r${index + 1}`, httpPort, nativePort, interserverPort };
  });
  const zookeeper = newZookeeper(join(directory, 'zookeeper'), zookeeperPort, track);
  const servers = places.map((place) =>
    newServer(join(directory, place.name), { place, places, zookeeperPort, sessionMs, version }),
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
  readonly httpPort: number;
  readonly nativePort: number;
  readonly interserverPort: number;
}

interface ServerOptions {
  readonly place: Place;
  readonly places: readonly Place[];
  readonly zookeeperPort: number;
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
  const command =
    version === '18.16' ? [program, `--config-file=${configFile}`] : ['python3', libraryProgram, library, configFile];
  const url = `http://127.0.0.1:${place.httpPort}`;
  let child: ChildProcess | undefined;
  return {
    name: place.name,
    url,
    async kill() {
      await endProcess(child);
    },
    async start() {
      if (isRunning(child)) return;
      const log = openSync(logFile, 'a');
      // The kernel ends it when this process ends, however it ends.
      const started = spawn('setpriv', ['--pdeathsig=KILL', ...command], {
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

function serverConfig(
  directory: string,
  { place: own, places, zookeeperPort, sessionMs, version }: ServerOptions,
): string {
  const shards = Map.groupBy(places, ({ shard }) => shard);
  const definitions = [...shards.values()].map((replicas) => {
    const each = replicas.map(
      ({ nativePort }) => `<replica><host>127.0.0.1</host><port>${nativePort}</port></replica>`,
    );
    return `<shard><internal_replication>true</internal_replication>${each.join('')}</shard>`;
  });
  return `<yandex>
  <path>${directory}/data/</path>
  <tmp_path>${directory}/data/tmp/</tmp_path>
  <user_files_path>${directory}/data/user_files/</user_files_path>
  <format_schema_path>${directory}/data/format_schemas/</format_schema_path>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>${own.httpPort}</http_port>
  <tcp_port>${own.nativePort}</tcp_port>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <interserver_http_port>${own.interserverPort}</interserver_http_port>
  <max_concurrent_queries>100</max_concurrent_queries>
  ${version === '18.16' ? '' : '<max_server_memory_usage>1500000000</max_server_memory_usage>'}
  <mark_cache_size>67108864</mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <users_config>${directory}/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <zookeeper>
    <node><host>127.0.0.1</host><port>${zookeeperPort}</port></node>
    <session_timeout_ms>${sessionMs}</session_timeout_ms>
    <operation_timeout_ms>2000</operation_timeout_ms>
  </zookeeper>
  <macros><shard>${own.shard}</shard><replica>${own.name}</replica></macros>
  <remote_servers><${clusterName}>${definitions.join('')}</${clusterName}></remote_servers>
  <merge_tree><zookeeper_session_expiration_check_period>1</zookeeper_session_expiration_check_period></merge_tree>
</yandex>
`;
}

const usersConfig = `<yandex>
  <profiles><default>
    <max_memory_usage>500000000</max_memory_usage>
    <background_pool_size>4</background_pool_size>
  </default></profiles>
  <quotas><default></default></quotas>
  <users><default>
    <password></password>
    <networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile>
    <quota>default</quota>
  </default></users>
</yandex>
`;
