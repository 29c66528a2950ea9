// Servers that share a store on PostgreSQL: how soon a change made through one is in force on the other, and what one server does in a second.
import { join } from 'node:path';
import { missingRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { missingPostgresql, newStoreDatabase, startDurableCluster, urlOfDatabase } from '../tests/postgresql.ts';
import { lineorderColumns } from './harness/filled_store.ts';
import { Generator } from './harness/load.ts';
import { type Bench, type BenchOptions, type Measure, median } from './harness/report.ts';
import { measureSecondServer, requestsPerProcessorRatioMin } from './harness/second_server.ts';
import { TabulariumServer } from './harness/server.ts';

const inForceMsMax = 100;
const getsPerSecondMin = 3_000;
const createsPerSecondMin = 100;
const connections = 32;
const waitMsMax = 10_000;
const database = 'shared';
const shop = `/api/v2/catalogs/default/databases/${database}`;
const readAfter = 'x-service-read-after';

interface Two {
  readonly one: TabulariumServer;
  readonly other: TabulariumServer;
}

interface Sent {
  readonly status: number;
  readonly position: string | null;
  readonly result: Readonly<Record<string, unknown>>;
}

async function send(
  server: TabulariumServer,
  method: string,
  path: string,
  { body, headers = server.authorization }: { body?: object; headers?: Readonly<Record<string, string>> } = {},
): Promise<Sent> {
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { ...headers, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const { result } = (await response.json()) as { result: Sent['result'] };
  return { status: response.status, position: response.headers.get(readAfter), result };
}

/** A change through one server, and how a response of the other shows that it is in force. */
interface Case {
  readonly what: string;
  /** @returns the request to the other server, and whether its status shows the change. */
  readonly prepare: (servers: Two, round: number) => Promise<Prepared>;
}

interface Prepared {
  readonly change: () => Promise<Sent>;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly isInForce: (status: number) => boolean;
}

async function newUser({ one }: Two, name: string) {
  await send(one, 'POST', '/api/v2/users', { body: { name } });
  const token = await send(one, 'POST', `/api/v2/users/${name}/tokens`, { body: { name: 'bench' } });
  const grant = await send(one, 'POST', `/api/v2/users/${name}/grants`, { body: { privilege: 'read', on: shop } });
  return { token, grant, headers: { Authorization: `Bearer ${token.result.secret}` } };
}

const cases: readonly Case[] = [
  {
    what: 'a revoked grant',
    async prepare(servers, round) {
      const { grant, headers } = await newUser(servers, `granted_${round}`);
      const change = () => send(servers.one, 'DELETE', String(grant.result.uri));
      return { change, path: shop, headers, isInForce: (status) => status !== 200 };
    },
  },
  {
    what: 'a deleted token',
    async prepare(servers, round) {
      const { token, headers } = await newUser(servers, `signed_in_${round}`);
      const change = () => send(servers.one, 'DELETE', String(token.result.uri));
      return { change, path: shop, headers, isInForce: (status) => status === 401 };
    },
  },
  {
    what: 'a renamed table',
    async prepare(servers, round) {
      const { one, other } = servers;
      await one.createTable(database, `before_${round}`, { columns: lineorderColumns });
      const body = { newName: `after_${round}` };
      const change = () => send(one, 'POST', `${shop}/tables/before_${round}/rename`, { body });
      const path = `${shop}/tables/before_${round}`;
      return { change, path, headers: other.authorization, isInForce: (status) => status !== 200 };
    },
  },
];

/** Milliseconds from the response of the change until the other server first answers by it. */
async function inForceMs({ other }: Two, { change, path, headers, isInForce }: Prepared, isNamed: boolean) {
  const before = await send(other, 'GET', path, { headers: { ...headers, [readAfter]: String(2 ** 49) } });
  if (before.status !== 200) throw new Error(`${path} is answered with ${before.status} before the change`);
  const { status, position } = await change();
  if (status !== 200) throw new Error(`the change was answered with ${status}`);
  const since = performance.now();
  const named = isNamed ? { [readAfter]: String(position) } : {};
  for (let attempts = 1; ; attempts++) {
    const answer = await send(other, 'GET', path, { headers: { ...headers, ...named } });
    const ms = performance.now() - since;
    if (isInForce(answer.status)) return { ms, attempts };
    if (ms > waitMsMax) throw new Error(`${path} is still answered with ${answer.status}`);
  }
}

async function measureChanges(servers: Two, { quick, print }: BenchOptions): Promise<Measure[]> {
  const measures: Measure[] = [];
  const rounds = quick ? 3 : 100;
  let round = 0;
  for (const { what, prepare } of cases) {
    const plain: number[] = [];
    let late = 0;
    for (let n = 0; n < rounds; n++) {
      plain.push((await inForceMs(servers, await prepare(servers, ++round), false)).ms);
      if ((await inForceMs(servers, await prepare(servers, ++round), true)).attempts > 1) late++;
    }
    plain.sort((a, b) => a - b);
    const [p50, p99, max] = [
      median(plain),
      plain[Math.ceil(plain.length * 0.99) - 1] ?? Number.NaN,
      plain.at(-1) as number,
    ];
    const target = { text: `≤ ${inForceMsMax}`, met: p99 <= inForceMsMax };
    measures.push(
      { what: `${what} is in force on the other server: p50`, value: p50, unit: 'ms' },
      { what: `${what} is in force on the other server: p99`, value: p99, unit: 'ms', target },
      { what: '- max', value: max, unit: 'ms' },
      {
        what: `${what} is not in force at once, with x-service-read-after`,
        value: late,
        unit: '',
        target: { text: '0', met: late === 0 },
      },
    );
    print(
      `  ${what}: ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)}, max ${max.toFixed(1)}; late with the position: ${late}`,
    );
  }
  return measures;
}

async function measureRates(server: TabulariumServer, { quick, print }: BenchOptions): Promise<Measure[]> {
  await server.createTable(database, 'read', { columns: lineorderColumns });
  const generator = new Generator({ pinned: true });
  const headers = server.authorization;
  const usual = { port: server.port, connections, warmupMs: quick ? 200 : 1000, durationMs: quick ? 500 : 3000 };
  const gets: number[] = [];
  const creates: number[] = [];
  let first = 0;
  try {
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      const template = { method: 'GET', path: `${shop}/tables/read`, headers } as const;
      gets.push((await generator.load({ ...usual, template, order: 'cycle', count: 1, status: 200 })).perSecond);
      const created = await generator.load({
        ...usual,
        // The engine starts with the first of them.
        warmupMs: quick ? 2000 : 3000,
        durationMs: 3000,
        connections: 4,
        template: {
          method: 'POST',
          path: `${shop}/tables/create`,
          bodies: [JSON.stringify({ name: 'created_{name}', columns: lineorderColumns })],
          headers: { ...headers, 'Content-Type': 'application/json' },
        },
        order: 'once',
        first,
        count: 1_000_000,
        status: 201,
      });
      first = created.next;
      creates.push(created.perSecond);
    }
  } finally {
    await generator.stop();
  }
  const measure = (what: string, values: readonly number[], min: number): Measure => {
    const value = median(values);
    print(`  ${what}: ${value.toFixed(0)} a second`);
    return { what, value, unit: '1/s', target: { text: `≥ ${min}`, met: value >= min } };
  };
  return [
    measure(`GET of a table, ${connections} connections, one core`, gets, getsPerSecondMin),
    measure('creates of a table, 4 connections, one core', creates, createsPerSecondMin),
  ];
}

export const bench: Bench = {
  name: 'several_servers',
  claim: `Two servers on one PostgreSQL: a change is in force on the other within ${inForceMsMax} ms, and at once for a request that names its position; GET of a table at least ${getsPerSecondMin} and create at least ${createsPerSecondMin} a second on one core; two servers that share a store answer at least ${requestsPerProcessorRatioMin} times the requests of two with a store each in the same processor time.`,
  async run(options) {
    if (missingPostgresql) throw new Error(missingPostgresql);
    const { workDirectory } = options;
    startDurableCluster();
    const store = urlOfDatabase(await newStoreDatabase());
    const start = (name: string, pinned: boolean, flags: readonly string[] = []) =>
      TabulariumServer.start({
        dataDirectory: join(workDirectory, name),
        pinned,
        flags: ['--store', store, '--failed-logins-per-address-max', '1000000', ...flags],
      });
    const one = await start('one', true);
    const measures: Measure[] = [];
    try {
      await one.createDatabase(database);
      measures.push(...(await measureRates(one, options)));
      const other = await start('other', false, ['--secret-key-file', join(workDirectory, 'one', 'secret.key')]);
      try {
        measures.push(...(await measureChanges({ one, other }, options)));
      } finally {
        await other.stop();
      }
    } finally {
      await one.stop();
    }
    if (missingRing) options.print(`  not measured, requests per second of processor time: ${missingRing}`);
    else measures.push(...(await measureSecondServer(options)));
    return {
      measures,
      notes: [
        'PostgreSQL runs on the same machine, reached by a socket, durable, on the same disk; its processes share the cores with the servers.',
        'From the response to the change until the first response of the other server that shows it, with one request after the other; a request takes about a millisecond itself.',
        'The rates are of one server pinned to a core; its engine runs on the same core.',
        'Requests per second of processor time: one server on a store, and two on another one, in turns, on a warehouse of one ClickHouse server. Of 20 requests, 12 get a table, 3 list 100 tables, 4 are point queries and 1 creates a table. The processor time is that of the processes of the servers; that of PostgreSQL and ClickHouse is beside.',
      ],
    };
  },
};
