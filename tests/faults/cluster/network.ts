// Hosts of a cluster as network namespaces behind a router, between which packets can be dropped: a partition, in which no connection is refused
// or reset. Without them (`loopback`) all hosts are this machine. Namespaces end with the process; those of a process that was killed are
// removed by the next one.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';

export interface Host {
  readonly name: string;
  readonly address: string;
  /** The words before a command that run it there. */
  readonly enter: readonly string[];
}

export type Cut = 'both' | 'there' | 'back';

export interface Network {
  /** Whether hosts can be cut from each other. */
  readonly canCut: boolean;
  host(name: string): Host;
  /** Drops the packets between two hosts: all, or those of the first or of the second one. @returns what ends it. */
  cut(from: Host, to: Host, which?: Cut): () => void;
  close(): void;
}

const prefix = 'tabularium-';
const namespaces = '/run/netns';
/** For benchmarks of networks (RFC 2544): no other network of the machine has these addresses. */
const addressesOf = (network: number) => `198.18.${network}`;
const networksMax = 256;
/** Four addresses for the link between a host and the router. */
const linkSize = 4;

const ip = (words: readonly string[], input?: string) =>
  execFileSync('ip', words, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] });

/** Why hosts cannot be cut from each other; false if they can. */
export const missingNamespaces: string | false = whyMissing();

function whyMissing(): string | false {
  const name = `${prefix}${process.pid}-trial`;
  try {
    ip(['netns', 'add', name]);
    ip(['netns', 'delete', name]);
    return false;
  } catch (error) {
    const text = String((error as { stderr?: string }).stderr || (error as Error).message).trim();
    return `network namespaces need root and iproute2: ${text}`;
  }
}

/** All hosts are this machine. */
export const loopback: Network = {
  canCut: false,
  host: (name) => ({ name, address: '127.0.0.1', enter: [] }),
  cut: () => {
    throw new Error('hosts on one address cannot be cut from each other');
  },
  close: () => {},
};

/** Of this process. */
let opened = 0;

/** A network of namespaces with these hosts, beside others; this process reaches all of them. */
export function openNetwork(names: readonly string[]): Network {
  removeOfEndedProcesses();
  const ordinal = opened++;
  const own = `${prefix}${process.pid}-${ordinal}-`;
  const router = `${own}router`;
  const namespaceOf = (name: string) => `${own}${name}`;
  const rootLink = `tab${process.pid}n${ordinal}`;
  const network = freeNetwork();
  const addressAt = (position: number, offset: number) => `${addressesOf(network)}.${position * linkSize + offset}`;
  const close = () => removeNamespaces((name) => name.startsWith(own));
  process.once('exit', close);
  ip(['netns', 'add', router]);
  const routerLines = [`addr add ${addressAt(0, 1)}/30 dev root`, 'link set root up', 'link set lo up'];
  ip(['link', 'add', 'root', 'netns', router, 'type', 'veth', 'peer', 'name', rootLink]);
  for (const [index, name] of names.entries()) {
    const position = index + 1;
    const host = namespaceOf(name);
    ip(['netns', 'add', host]);
    ip(['link', 'add', `host${position}`, 'netns', router, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', host]);
    routerLines.push(`addr add ${addressAt(position, 1)}/30 dev host${position}`, `link set host${position} up`);
    const hostLines = [
      'link set lo up',
      `addr add ${addressAt(position, 2)}/30 dev eth0`,
      'link set eth0 up',
      `route add default via ${addressAt(position, 1)}`,
    ];
    ip(['-n', host, '-batch', '-'], hostLines.join('\n'));
  }
  ip(['-n', router, '-batch', '-'], routerLines.join('\n'));
  execFileSync('nsenter', [...enterOf(router), 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward']);
  ip(['addr', 'add', `${addressAt(0, 2)}/30`, 'dev', rootLink]);
  ip(['link', 'set', rootLink, 'up']);
  ip(['route', 'add', `${addressesOf(network)}.0/24`, 'via', addressAt(0, 1)]);
  const drop = (verb: 'add' | 'delete', from: Host, to: Host) =>
    ip(['-n', router, 'rule', verb, 'from', from.address, 'to', to.address, 'blackhole']);
  return {
    canCut: true,
    host(name) {
      const index = names.indexOf(name);
      if (index < 0) throw new Error(`there is no host ${name}`);
      return { name, address: addressAt(index + 1, 2), enter: ['nsenter', ...enterOf(namespaceOf(name))] };
    },
    cut(from, to, which = 'both') {
      const ways: [Host, Host][] = [];
      if (which !== 'back') ways.push([from, to]);
      if (which !== 'there') ways.push([to, from]);
      for (const [a, b] of ways) drop('add', a, b);
      return () => {
        for (const [a, b] of ways) drop('delete', a, b);
      };
    },
    close() {
      process.off('exit', close);
      close();
    },
  };
}

const enterOf = (namespace: string) => [`--net=${namespaces}/${namespace}`];

/** The number of a network to which this machine has no route. */
function freeNetwork(): number {
  const routes = ip(['route', 'show']);
  for (let tried = 0; tried < networksMax; tried++) {
    const network = (process.pid + tried) % networksMax;
    if (!routes.includes(`${addressesOf(network)}.`)) return network;
  }
  throw new Error('all networks for tests are in use');
}

function removeOfEndedProcesses(): void {
  removeNamespaces((name) => {
    const pid = new RegExp(`^${prefix}(\\d+)-`).exec(name)?.[1];
    return pid !== undefined && !existsSync(`/proc/${pid}`);
  });
}

function removeNamespaces(isMeant: (name: string) => boolean): void {
  if (!existsSync(namespaces)) return;
  for (const name of readdirSync(namespaces).filter(isMeant)) {
    try {
      ip(['netns', 'delete', name]);
    } catch {
      // Another process has removed it.
    }
  }
}
