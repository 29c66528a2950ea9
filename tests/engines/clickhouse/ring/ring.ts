// Clusters of a current ClickHouse on this machine, of nodes made of the library of npm `chdb`. They end with this process, also when that is
// killed. Such nodes cannot replicate (docs/engines.md): local tables are plain MergeTree, and copies are written by Distributed tables.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../deadline.ts';
import { deployedUser, nodeUserFiles } from './deployed_user.ts';
import { freePorts } from './free_ports.ts';
import { type ResetProxy, startResetProxy } from './reset_proxy.ts';
import { startProxyOnHost } from './reset_proxy_process.ts';

const library = fileURLToPath(new URL('node_modules/@chdb/lib-linux-x64-gnu/libchdb.so', import.meta.url));
const program = fileURLToPath(new URL('node.py', import.meta.url));

/** Why tests on a ClickHouse of this machine cannot run; false if they can. */
export const missingRing: string | false =
  !existsSync(library) &&
  'the library of chdb is not installed (npm ci in tests/engines/clickhouse/ring, on Linux x64)';

/** The clusters that each node knows. */
export const clusters = {
  /** Each node has all rows. */
  copies: 'copies',
  /** Each node has a part of the rows. */
  shards: 'shards',
} as const;

export interface RingNode {
  /** Of its HTTP interface. */
  readonly url: string;
  /** Of its process, while it runs. */
  readonly pid: number | undefined;
  /** Ends it at once. */
  kill(): Promise<void>;
  /** Starts it again with its data. Resolves when it answers. */
  start(): Promise<void>;
  /** It answers nothing until `resume`. */
  freeze(): void;
  resume(): void;
}

export interface Ring {
  readonly nodes: readonly RingNode[];
  /** Restarts the other nodes with definitions of the clusters without this one, as an operator takes a server out. */
  takeOut(index: number): Promise<void>;
  close(): Promise<void>;
}

const children = new Set<ChildProcess>();
const directories: string[] = [];
process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

export interface RingOptions {
  /** Further files of each node by their path beside its config.xml, such as `config.d/users.xml`. */
  readonly files?: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
  /** Where each node runs; by default on this machine. */
  readonly hosts?: readonly RingHost[];
  /**
   * The definitions of the clusters name the nodes themselves, not the proxies in front of them: a node recognizes itself and reads its own rows
   * without a connection, as a server in operation does. A node dies of a connection that is reset, so this is for one node.
   */
  readonly withoutProxies?: boolean;
  /** The nodes listen on HTTP only, like servers whose native port is encrypted. Without other nodes. */
  readonly withoutNativePorts?: boolean;
}

export interface RingHost {
  readonly address: string;
  /** The words before a command that run it there. */
  readonly enter: readonly string[];
}

export const thisMachine: RingHost = { address: '127.0.0.1', enter: [] };

/** Starts the nodes of a new ring; each answers when it resolves. */
export async function startRing(
  count = 3,
  { files = {}, environment = {}, hosts = [], withoutProxies = false, withoutNativePorts = false }: RingOptions = {},
): Promise<Ring> {
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-ring-'));
  directories.push(directory);
  const ports = await freePorts(3 * count);
  const proxies: NodeProxy[] = [];
  for (let index = 0; index < count; index++) {
    const host = hosts[index] ?? thisMachine;
    const target = ports[2 * index + 1] as number;
    const isElsewhere = host.enter.length > 0;
    const proxy = withoutProxies
      ? { port: target, close: () => undefined }
      : isElsewhere
        ? await startProxyOnHost(host, target, ports[2 * count + index] as number)
        : await startResetProxy(target);
    proxies.push({ ...proxy, address: host.address });
  }
  const nodes = proxies.map((_, index) =>
    newNode({
      host: hosts[index] ?? thisMachine,
      directory: join(directory, `node ${index + 1}`),
      httpPort: ports[2 * index] as number,
      nativePort: withoutNativePorts ? undefined : (ports[2 * index + 1] as number),
      files: {
        'config.xml': nodeConfig(proxies, index, join(directory, `node ${index + 1}`)),
        ...nodeUserFiles(),
        ...files,
      },
      environment,
    }),
  );
  await Promise.all(nodes.map((node) => node.start()));
  return {
    nodes,
    async takeOut(index) {
      const remaining = proxies.filter((_, position) => position !== index);
      for (const [position, node] of nodes.entries()) {
        if (position === index) continue;
        const ownDirectory = join(directory, `node ${position + 1}`);
        writeFileSync(join(ownDirectory, 'config.xml'), nodeConfig(remaining, position, ownDirectory));
        await node.kill();
        await node.start();
      }
    },
    async close() {
      await Promise.all(nodes.map((node) => node.kill()));
      for (const proxy of proxies) proxy.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

type NodeProxy = ResetProxy & Pick<RingHost, 'address'>;

interface NodeOptions {
  readonly host: RingHost;
  readonly directory: string;
  readonly httpPort: number;
  readonly nativePort: number | undefined;
  readonly files: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
}

function newNode({ host, directory, httpPort, nativePort, files, environment }: NodeOptions): RingNode {
  mkdirSync(join(directory, 'data'), { recursive: true });
  const configFile = join(directory, 'config.xml');
  const logFile = join(directory, 'log');
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
  const url = `http://${host.address}:${httpPort}`;
  let child: ChildProcess | undefined;
  const isUp = async () => {
    if (child?.exitCode !== null) throw new Error(`a node ended: ${readFileSync(logFile, 'utf8')}`);
    return fetch(`${url}/?query=SELECT+1`).then(
      ({ ok }) => ok,
      () => false,
    );
  };
  return {
    url,
    get pid() {
      return child?.pid;
    },
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      child.ref();
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      await exited;
    },
    async start() {
      const log = openSync(logFile, 'a');
      const own = [configFile, join(directory, 'data'), String(httpPort), String(nativePort ?? ''), host.address];
      // The kernel ends the node when this process ends, however it ends.
      const words = [...host.enter, 'setpriv', '--pdeathsig=KILL', 'python3', program, library, ...own];
      const started = spawn(words[0] as string, words.slice(1), {
        stdio: ['ignore', log, log],
        env: { ...process.env, ...environment },
      });
      started.unref();
      children.add(started);
      started.once('exit', () => children.delete(started));
      child = started;
      await eventually('a ClickHouse node answers', isUp, 30_000);
    },
    freeze: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
  };
}

function nodeConfig(proxies: readonly NodeProxy[], index: number, directory: string): string {
  const { user, password } = deployedUser;
  const as = `<user>${user}</user><password>${password}</password>`;
  const replicas = proxies.map(
    ({ address, port }) => `<replica><host>${address}</host><port>${port}</port>${as}</replica>`,
  );
  const shards = replicas.map((replica) => `<shard>${replica}</shard>`);
  return `<clickhouse>
  <path>${directory}/data/</path>
  <logger><level>warning</level><console>1</console></logger>
  <log-level>warning</log-level>
  <max_server_memory_usage>1500000000</max_server_memory_usage>
  <remote_servers>
    <${clusters.copies}><shard><internal_replication>false</internal_replication>${replicas.join('')}</shard></${clusters.copies}>
    <${clusters.shards}>${shards.join('')}</${clusters.shards}>
  </remote_servers>
  <macros><shard>${index + 1}</shard><replica>r${index + 1}</replica></macros>
</clickhouse>
`;
}
