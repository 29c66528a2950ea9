// What can happen to an installation: processes are killed or freeze, the store restarts or fails over, hosts are cut from each other.
import { setTimeout as pause } from 'node:timers/promises';
import type { Random } from '../../random.ts';
import type { ClusterServer, ClusterWorld } from './cluster_world.ts';
import type { Cut, Host } from './network.ts';

export interface Fault {
  readonly name: string;
  /** @returns what ends it; resolves when everything runs again, though perhaps not yet at work. */
  begin(world: ClusterWorld): Promise<() => Promise<void>>;
}

export interface Process {
  kill(): Promise<void>;
  start(): Promise<void>;
  freeze(): void;
  resume(): void;
}

export const killed = (name: string, chosen: (world: ClusterWorld) => readonly Process[]): Fault => ({
  name: `kill -9 of ${name}`,
  async begin(world) {
    const processes = chosen(world);
    await Promise.all(processes.map((each) => each.kill()));
    return async () => {
      for (const each of processes) await each.start();
    };
  },
});

export const frozen = (name: string, chosen: (world: ClusterWorld) => readonly Process[]): Fault => ({
  name: `SIGSTOP of ${name}`,
  begin(world) {
    const processes = chosen(world);
    for (const each of processes) each.freeze();
    return Promise.resolve(() => {
      for (const each of processes) each.resume();
      return Promise.resolve();
    });
  },
});

const serverAt = ({ servers }: ClusterWorld, index: number) => servers[index] as ClusterServer;
const nodeAt = ({ ring }: ClusterWorld, index: number) => ring.nodes[index] as Process;

const groups: readonly { readonly name: string; readonly chosen: (world: ClusterWorld) => readonly Process[] }[] = [
  ...[0, 1].map((index) => ({
    name: `server ${index + 1}`,
    chosen: (world: ClusterWorld) => [serverAt(world, index)],
  })),
  { name: 'both servers', chosen: ({ servers }) => servers },
  ...[0, 1, 2].map((index) => ({ name: `node ${index + 1}`, chosen: (world: ClusterWorld) => [nodeAt(world, index)] })),
  { name: 'all nodes', chosen: ({ ring }) => ring.nodes },
];

const restartOfStore: Fault = {
  name: 'restart of the store',
  async begin({ store }) {
    await store.killPrimary();
    return () => store.startPrimary();
  },
};

export const ofStore: readonly Fault[] = [
  restartOfStore,
  {
    name: 'SIGSTOP of the store',
    begin: ({ store }) => {
      const resume = store.freezePrimary();
      return Promise.resolve(() => Promise.resolve(resume()));
    },
  },
  {
    name: 'fail-over of the store to its standby',
    async begin({ store }) {
      await store.killPrimary();
      return async () => {
        await store.promote();
        await store.addStandby();
      };
    },
  },
];

function cut(name: string, which: Cut, pairs: (world: ClusterWorld) => readonly (readonly [Host, Host])[]): Fault {
  const ways = { both: '', there: ', requests only', back: ', responses only' };
  return {
    name: `${name}${ways[which]}`,
    begin(world) {
      const ends = pairs(world).map(([from, to]) => world.network.cut(from, to, which));
      return Promise.resolve(() => {
        for (const end of ends) end();
        return Promise.resolve();
      });
    },
  };
}

const cuts: readonly Fault[] = (['both', 'there', 'back'] as const).flatMap((which) => [
  ...[0, 1].flatMap((server) => [
    cut(`server ${server + 1} cut from the store`, which, (world) =>
      world.storeHosts.map((host) => [serverAt(world, server).host, host]),
    ),
    cut(`server ${server + 1} cut from all nodes`, which, (world) =>
      world.nodeHosts.map((host) => [serverAt(world, server).host, host]),
    ),
    ...[0, 1, 2].map((node) =>
      cut(`server ${server + 1} cut from node ${node + 1}`, which, (world) => [
        [serverAt(world, server).host, world.nodeHosts[node] as Host],
      ]),
    ),
  ]),
  cut('both servers cut from the store', which, ({ servers, storeHosts }) =>
    servers.flatMap(({ host }) => storeHosts.map((store): [Host, Host] => [host, store])),
  ),
  ...[0, 1, 2].map((node) =>
    cut(`node ${node + 1} cut from the other nodes`, which, ({ nodeHosts }) =>
      nodeHosts.flatMap((host, index): [Host, Host][] => (index === node ? [] : [[nodeHosts[node] as Host, host]])),
    ),
  ),
]);

const keeperOf = ({ keeper }: ClusterWorld) => {
  if (keeper === undefined) throw new Error('the nodes have no ZooKeeper');
  return keeper;
};
export const ofKeeper: readonly Fault[] = [
  killed('ZooKeeper', (world) => [keeperOf(world).process]),
  frozen('ZooKeeper', (world) => [keeperOf(world).process]),
];
const cutsOfKeeper: readonly Fault[] = (['both', 'there', 'back'] as const).flatMap((which) => [
  ...[0, 1, 2].map((node) =>
    cut(`node ${node + 1} cut from ZooKeeper`, which, (world) => [
      [world.nodeHosts[node] as Host, keeperOf(world).host],
    ]),
  ),
  cut('all nodes cut from ZooKeeper', which, (world) =>
    world.nodeHosts.map((host): [Host, Host] => [host, keeperOf(world).host]),
  ),
]);

export const faultsOfProcesses: readonly Fault[] = [
  ...groups.flatMap(({ name, chosen }) => [killed(name, chosen), frozen(name, chosen)]),
];

/** In kinds, each as likely as the others: those with many hosts to choose from do not crowd out the rest. */
const kinds = { processes: faultsOfProcesses, store: ofStore, cuts, keeper: ofKeeper, cutsOfKeeper };

/** One that the network of the world permits. `only`: a part of its name. */
export function randomFault(random: Random, { network, keeper }: ClusterWorld, only = ''): Fault {
  const permitted: readonly (keyof typeof kinds)[] = [
    'processes',
    'store',
    ...(network.canCut ? (['cuts'] as const) : []),
    ...(keeper ? (['keeper'] as const) : []),
    ...(keeper && network.canCut ? (['cutsOfKeeper'] as const) : []),
  ];
  const chosen = permitted.map((kind) => kinds[kind].filter(({ name }) => name.includes(only)));
  return random.pick(random.pick(chosen.filter(({ length }) => length > 0)));
}

/** Mostly short; sometimes longer than the leases of servers on their work, which last 6 s. */
export async function hold(random: Random): Promise<void> {
  await pause(random.chance(0.2) ? 6000 + random.below(3000) : 100 + random.below(2500));
}
