// A ZooKeeper of one node on this machine, out of Debian's package of its library. It ends with this process, also when that is killed.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { eventually } from '../../../deadline.ts';
import type { RingHost } from '../ring/ring.ts';

const jarDirectory = '/usr/share/java';
const jars = [
  'zookeeper',
  'zookeeper-jute',
  'slf4j-api',
  'slf4j-simple',
  'netty-all',
  'snappy-java',
  'metrics-core',
].map((name) => join(jarDirectory, `${name}.jar`));
const java = '/usr/bin/java';
/** Small, and quick to start. */
const javaFlags = ['-Xmx96m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto'];
const tickMs = 500;
const startMs = 30_000;

/** Why it cannot run; false if it can. */
export const missingZookeeper: string | false =
  ![java, ...jars].every((file) => existsSync(file)) &&
  'ZooKeeper is not installed (apt-get install libzookeeper-java default-jre-headless)';

/** A process of a ring, which faults strike. */
export interface RingProcess {
  /** Ends it at once. */
  kill(): Promise<void>;
  /** Starts it again with its data, unless it runs. Resolves when it answers. */
  start(): Promise<void>;
  /** It answers nothing until `resume`. */
  freeze(): void;
  resume(): void;
}

export interface ZookeeperPlace {
  readonly host: RingHost;
  readonly port: number;
}

/** @param spawned receives each process, which it ends when this process exits. */
export function newZookeeper(
  directory: string,
  place: ZookeeperPlace,
  spawned: (child: ChildProcess) => void,
): RingProcess {
  const { address, enter } = place.host;
  mkdirSync(join(directory, 'data'), { recursive: true });
  const configFile = join(directory, 'zoo.cfg');
  const logFile = join(directory, 'log');
  const config = {
    tickTime: tickMs,
    dataDir: join(directory, 'data'),
    clientPort: place.port,
    clientPortAddress: address,
    maxClientCnxns: 0,
    'admin.enableServer': false,
    forceSync: 'no',
    '4lw.commands.whitelist': 'ruok',
  };
  writeFileSync(
    configFile,
    Object.entries(config)
      .map(([key, value]) => `${key}=${value}\n`)
      .join(''),
  );
  let child: ChildProcess | undefined;
  return {
    async kill() {
      await endProcess(child);
    },
    async start() {
      if (isRunning(child)) return;
      const log = openSync(logFile, 'a');
      const main = ['-cp', jars.join(':'), 'org.apache.zookeeper.server.ZooKeeperServerMain', configFile];
      const [first = '', ...words] = [...enter, 'setpriv', '--pdeathsig=KILL', java, ...javaFlags, ...main];
      const started = spawn(first, words, {
        cwd: directory,
        stdio: ['ignore', log, log],
      });
      spawned(started);
      child = started;
      const isUp = async () => {
        if (started.exitCode !== null) throw new Error(`ZooKeeper ended: ${readFileSync(logFile, 'utf8')}`);
        return (await answerOf(place, 'ruok')) === 'imok';
      };
      await eventually('ZooKeeper answers', isUp, startMs);
    },
    freeze: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
  };
}

export const isRunning = (child: ChildProcess | undefined): child is ChildProcess =>
  child !== undefined && child.exitCode === null && child.signalCode === null;

/** Ends a process at once, unless it has ended. */
export async function endProcess(child: ChildProcess | undefined): Promise<void> {
  if (!isRunning(child)) return;
  child.ref();
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** What a server answers to one of ZooKeeper's four-letter words; nothing if it does not answer. */
function answerOf({ host, port }: ZookeeperPlace, word: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ port, host: host.address, timeout: 1000 }, () => socket.write(word));
    socket.setEncoding('utf8').on('data', (data) => {
      text += data;
    });
    socket.on('timeout', () => socket.destroy());
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
  });
}
