// The cost of authentication and authorization: GETs compared with those of the same server without them, by few and by many users;
// filtered lists; and the time of a start, the memory and the time of a change of a grant with very many grants.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fillAccess, secretOf, type UserGroup, userName } from './harness/filled_access.ts';
import { filledDatabase, fillStore, tableName, tablesPath } from './harness/filled_store.ts';
import { Generator } from './harness/load.ts';
import { computedMicroseconds, residentBytes } from './harness/processes.ts';
import { type Bench, type BenchOptions, type Measure, median, type Target } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';
import { type Contender, inTurns, measureInTurns, type Turn } from './harness/turns.ts';

const connections = 32;
const lostMax = 0.08;
const spreadMax = 0.1;
const startMsMax = 1000;
/** How many of the many users send requests. */
const callers = 1000;
const password = 'correct horse battery staple';
const passwordUser = 'bench_password';
const listedTables = 1000;
const hot = `${tablesPath}/${tableName(0)}`;
const openScript = join(import.meta.dirname, 'harness', 'open_server.ts');

const noRights = {
  users: 1,
  roles: 1,
  rolesPerUser: 1,
  grantsPerUser: 0,
  grantsPerRole: 0,
  onDatabase: 'none',
} as const;
/** One user with one role; one with a hundred; one who may read only some tables. */
const fewGroups: readonly UserGroup[] = [
  { ...noRights, name: 'one', onDatabase: 'first role' },
  { ...noRights, name: 'hundred', roles: 100, rolesPerUser: 100, grantsPerRole: 10, onDatabase: 'first role' },
];
/** 50,000 grants of users and 50,000 of roles. */
const manyGroups = (quick: boolean): UserGroup => ({
  name: 'many',
  users: quick ? 1000 : 10_000,
  roles: quick ? 100 : 1000,
  rolesPerUser: 10,
  grantsPerUser: 5,
  grantsPerRole: 49,
  onDatabase: 'all roles',
});

/** Names of the compared servers, as the results show them. */
const usageText = {
  open: 'no authentication, hot table',
  openRandom: 'no authentication, tables at random',
  openList: 'no authentication, the same list',
  openMany: 'no authentication, 1,000 tokens in rotation, hot table',
  root: 'root token, hot table',
  one: "a user's token, granted through a role, hot table",
  oneRandom: 'the same user, tables at random',
  hundred: 'a user with 100 roles and 1,001 grants, hot table',
  password: 'Basic with a password, hot table',
  many: 'very many grants: 1,000 users in rotation, hot table',
  manyOne: 'very many grants: one user, hot table',
  manyRandom: 'very many grants: 1,000 users in rotation, tables at random',
  all: `list of ${listedTables} tables, all of them readable`,
  filtered: `the same list for who may read just these, one grant each`,
} as const;
type Name = keyof typeof usageText;

interface Servers {
  readonly open: TabulariumServer;
  readonly few: TabulariumServer;
  readonly many: TabulariumServer;
}

const bearer = (secret: string) => ({ Authorization: `Bearer ${secret}` });
const basic = `Basic ${Buffer.from(`${passwordUser}:${password}`).toString('base64')}`;

/** Data directories with the same tables: with few grants and with many. */
async function startFilledServers({ quick, workDirectory }: BenchOptions) {
  const [first, second, third] = ['open', 'few', 'many'].map((name) => join(workDirectory, name)) as [
    string,
    string,
    string,
  ];
  await fillStore(first, quick ? 1000 : 20_000, { inEngine: false });
  for (const directory of [second, third]) await cp(first, directory, { recursive: true });
  await fillAccess(second, fewGroups);
  await fillAccess(second, [{ ...noRights, name: 'list', grantsPerUser: listedTables }]);
  await fillAccess(third, [manyGroups(quick)]);
  return { open: first, few: second, many: third };
}

/** The user whose password hash only the server can create. */
async function addPasswordUser(server: TabulariumServer): Promise<void> {
  await server.client.users.create({ name: passwordUser, password }, { ifExists: 'return' });
  const databasePath = `/api/v2/catalogs/default/databases/${filledDatabase}`;
  await server.client.users(passwordUser).grants.create({ privilege: 'read', on: databasePath });
}

interface Load {
  readonly service: TabulariumServer;
  readonly headers: Readonly<Record<string, string>>;
  readonly path?: string;
  readonly count?: number;
  readonly order?: 'cycle' | 'random';
  readonly connections?: number;
}

function loadRunner(generator: Generator, quick: boolean) {
  const job = { status: 200, awake: true, warmupMs: quick ? 100 : 300, durationMs: quick ? 300 : 1700 };
  return async (load: Load, round: number): Promise<Turn> => {
    const { service, headers, path = hot, count = 1, order = 'cycle' } = load;
    const before = computedMicroseconds(service.pid) ?? Number.NaN;
    const template = { method: 'GET', path, headers } as const;
    const seed = round + 1;
    const shared = { ...job, port: service.port, connections: load.connections ?? connections };
    const { perSecond, answered } = await generator.load({ ...shared, template, count, order, seed });
    return { perSecond, microseconds: ((computedMicroseconds(service.pid) ?? Number.NaN) - before) / answered };
  };
}

function loads(servers: Servers, tables: number): Readonly<Record<Name, Load>> {
  const random = { path: `${tablesPath}/table_{name}`, count: tables, order: 'random' } as const;
  const list = { path: `${tablesPath}?pageSize=${listedTables}`, connections: 8 } as const;
  const open = { service: servers.open, headers: servers.open.authorization };
  const user = (name: string) => ({ service: servers.few, headers: bearer(secretOf(name, '000000')) });
  const crowd = { service: servers.many, headers: bearer(secretOf('many')), count: callers };
  return {
    open,
    openRandom: { ...open, ...random },
    openList: { ...open, ...list },
    openMany: { ...open, headers: crowd.headers, count: callers },
    root: { service: servers.few, headers: servers.few.authorization },
    one: user('one'),
    oneRandom: { ...user('one'), ...random },
    hundred: user('hundred'),
    password: { service: servers.few, headers: { Authorization: basic } },
    many: crowd,
    manyOne: { ...crowd, count: 1 },
    manyRandom: { ...crowd, path: `${tablesPath}/table_{name}`, order: 'random' },
    all: { ...user('one'), ...list },
    filtered: { ...user('list'), ...list },
  };
}

const lossTarget = (ratio: number): Target => ({ text: `≥ ${1 - lostMax}`, met: ratio >= 1 - lostMax });
const sameCostTarget = (ratio: number): Target => ({
  text: `${1 - spreadMax} to ${1 + spreadMax}`,
  met: Math.abs(ratio - 1) <= spreadMax,
});

async function measureGets(servers: Servers, options: BenchOptions): Promise<Measure[]> {
  const { quick, print } = options;
  const generator = new Generator({ pinned: true });
  const turn = loadRunner(generator, quick);
  const all = Object.entries(loads(servers, quick ? 1000 : 20_000)) as [Name, Load][];
  const contenders: Contender[] = all.map(([name, load]) => ({
    name: usageText[name],
    run: (round) => turn(load, round),
  }));
  try {
    for (const { run } of contenders) await run(0);
    const turns = await inTurns(quick ? 2 : 7, contenders);
    const measures: Measure[] = [];
    const add = (name: Name, baselineName: Name, target?: (ratio: number) => Target) => {
      const pair = measureInTurns(turns, [usageText[name], usageText[baselineName]], target);
      print(`  ${usageText[name]}: ${pair[0].ratio?.toFixed(3)}`);
      measures.push(...pair);
    };
    add('root', 'open', lossTarget);
    add('one', 'open', lossTarget);
    add('oneRandom', 'openRandom', lossTarget);
    add('hundred', 'open', lossTarget);
    add('password', 'open', lossTarget);
    add('many', 'openMany', lossTarget);
    add('manyOne', 'one', sameCostTarget);
    add('many', 'one', sameCostTarget);
    add('manyRandom', 'oneRandom');
    add('all', 'openList', lossTarget);
    add('filtered', 'all');
    return measures;
  } finally {
    await generator.stop();
  }
}

/** Alternates grants and revokes; the median of each in milliseconds. */
async function changeMs(server: TabulariumServer, user: string, times: number): Promise<number> {
  const ms: number[] = [];
  for (let i = 0; i < times; i++) {
    const grant = { privilege: 'write', on: `${tablesPath}/${tableName(i)}` } as const;
    ms.push((await timed(() => server.client.users(user).grants.create(grant))).ms);
  }
  return median(ms);
}

/** Requests per second of many users while grants of a role that all of them have change at some rate. */
async function whileGranting(servers: Servers, { quick, print }: BenchOptions): Promise<Measure[]> {
  const generator = new Generator({ pinned: true });
  const turn = loadRunner(generator, quick);
  const load = loads(servers, 1).many;
  const [still, changing] = ['nothing changes', 'while 10 grants a second are made'];
  let grantCount = 0;
  const granting = async (round: number): Promise<Turn> => {
    let isOn = true;
    const changes = (async () => {
      for (; isOn; grantCount++) {
        const grant = { privilege: 'write', on: `${tablesPath}/${tableName(grantCount)}` } as const;
        await servers.many.client.roles(`many_role_${grantCount % 10}`).grants.create(grant);
        await sleep(100);
      }
    })();
    const result = await turn(load, round);
    isOn = false;
    await changes;
    return result;
  };
  try {
    const turns = await inTurns(quick ? 2 : 5, [
      { name: still, run: (round) => turn(load, round) },
      { name: changing, run: granting },
    ]);
    const [rate, time] = measureInTurns(turns, [changing, still]);
    print(`  ${changing}: ${rate.ratio?.toFixed(3)}`);
    return [{ ...rate, what: `${usageText.many}, ${changing}` }, time];
  } finally {
    await generator.stop();
  }
}

interface StartMeasures {
  readonly ms: number;
  readonly megabytes: number;
  /** After each user has sent a request. */
  readonly usedMegabytes: number;
}

async function started(
  dataDirectory: string,
  crowd: string,
  users: number,
  generator: Generator,
): Promise<StartMeasures> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    const megabytes = async () => {
      await sleep(500);
      return (residentBytes(server.pid) ?? Number.NaN) / 1e6;
    };
    const before = await megabytes();
    const template = { method: 'GET', path: hot, headers: bearer(secretOf(crowd)) } as const;
    const job = { template, order: 'cycle', count: users, status: 200, warmupMs: 0, durationMs: 1500 } as const;
    await generator.load({ ...job, port: server.port, connections });
    return { ms: server.readyMs, megabytes: before, usedMegabytes: await megabytes() };
  } finally {
    await server.stop();
  }
}

async function starts(directories: Readonly<Record<'few' | 'many', string>>, quick: boolean): Promise<Measure[]> {
  const generator = new Generator({ pinned: false });
  const measured: Record<'few' | 'many', StartMeasures[]> = { few: [], many: [] };
  try {
    for (let time = 0; time < (quick ? 1 : 5); time++) {
      measured.few.push(await started(directories.few, 'one', 1, generator));
      measured.many.push(await started(directories.many, 'many', manyGroups(quick).users, generator));
    }
  } finally {
    await generator.stop();
  }
  const medianPair = (medians: (start: StartMeasures) => number) =>
    [median(measured.few.map(medians)), median(measured.many.map(medians))] as const;
  const measure = (what: string, unit: string, [value, more]: readonly [number, number]): Measure => ({
    what: `${what}, very many grants`,
    value: more,
    unit,
    baseline: { what: 'few grants', value },
  });
  const ms = medianPair((start) => start.ms);
  const target = { text: `≤ ${startMsMax} more`, met: ms[1] - ms[0] <= startMsMax };
  return [
    { ...measure('ready', 'ms', ms), target },
    measure(
      'resident memory after the start',
      'MB',
      medianPair((start) => start.megabytes),
    ),
    measure(
      'resident memory after requests of every user',
      'MB',
      medianPair((start) => start.usedMegabytes),
    ),
  ];
}

async function measure(options: BenchOptions): Promise<Measure[]> {
  const { quick, print } = options;
  const directories = await startFilledServers(options);
  const measures = await starts(directories, quick);
  for (const { what, value, baseline } of measures)
    print(`  ${what}: ${value.toFixed(0)} against ${baseline?.value.toFixed(0)}`);
  const start = (dataDirectory: string, script?: string) =>
    TabulariumServer.start({ dataDirectory, pinned: true, ...(script ? { script } : {}) });
  const servers = {
    open: await start(directories.open, openScript),
    few: await start(directories.few),
    many: await start(directories.many),
  };
  try {
    await addPasswordUser(servers.few);
    measures.unshift(...(await measureGets(servers, options)));
    const times = quick ? 20 : 200;
    const value = await changeMs(servers.many, userName('many', 0), times);
    const baseline = { what: 'few grants', value: await changeMs(servers.few, passwordUser, times) };
    print(`  a grant: ${value.toFixed(2)} ms against ${baseline.value.toFixed(2)} ms`);
    measures.push({ what: 'a grant, durable, very many grants', value, unit: 'ms', baseline });
    measures.push(...(await whileGranting(servers, options)));
    return measures;
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  }
}

export const bench: Bench = {
  name: 'access',
  claim: `Authentication and authorisation together cost at most ${lostMax * 100} % of the requests a second of a GET; and with 10,000 users, 1,000 roles and 100,000 grants as many are answered within ${spreadMax * 100} %.`,
  run: async (options) => ({
    measures: await measure(options),
    notes: [
      'The baseline is the same server with a gate that lets everybody in as root and asks nothing (`bench/harness/open_server.ts`).',
      `Servers on one core, alternately; the load generator on another, where it polls. ${connections} connections, 8 for lists; 20,000 tables of 17 columns in each store.`,
      'Few grants: three users and 101 roles. Very many: 10,000 users with a token and 5 grants each, in 10 of 1,000 roles with 50 grants each.',
      'The processor time counts all threads of the server, the warm-up included.',
    ],
  }),
};
