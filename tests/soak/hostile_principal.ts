// A hostile principal, in its own thread so that it does not disturb the clock of the measurement: statements that would end or occupy
// an engine, bodies that are large and invalid, or very many connections. Runs until it receives a message to stop.
import { Agent, request } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

export type HostileKind = 'statements' | 'bodies' | 'connections';

export interface HostileOptions {
  readonly kind: HostileKind;
  readonly port: number;
  readonly authorization: string;
}

const statements = [
  "select from_json('{}', repeat('[',100000)||repeat(']',100000))",
  "select json_structure(repeat('[',100000)||repeat(']',100000))",
  "select rpad('x', 2000000000, 'y')",
  "select bitstring('1', 2000000000)",
  'select list_resize([1], 2000000000)',
  "select levenshtein(repeat('a', 100000), repeat('b', 100000))",
  `select ${Array.from({ length: 50_000 }, (_, n) => n).join(', ')}`,
  `select ${'list_transform([1], lambda x: '.repeat(60)}x${')'.repeat(60)}`,
  'select sum(a.range * b.range) from range(1000000) a, range(1000000) b',
  'select count(*) from (select range, hash(range) h from range(50000000) order by h)',
];
/** Created once: the processor time belongs to the server that is measured. */
const bodies = (
  [
    ['/api/v2/users/identify', `{${Array.from({ length: 350_000 }, (_, n) => `"m${n}":1`).join(',')}}`],
    [
      '/api/v2/databases/shop/tables/t/rows',
      `{"rows":[${Array.from({ length: 500_000 }, (_, n) => `{"none":${n}}`).join(',')}]}`,
    ],
    [
      '/api/v2/databases/shop/query',
      `{"sql":"select 1","parameters":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}`,
    ],
    ['/api/v2/databases/shop/query', JSON.stringify({ sql: `select '${'x'.repeat(8_000_000)}'` })],
    ['/api/v2/tasks/search', JSON.stringify({ label: 'y'.repeat(30_000_000) })],
  ] as const
).map(([path, body]) => [path, Buffer.from(body)] as const);
const connectionsMax = 1_000;

const { kind, port, authorization } = workerData as HostileOptions;
const answers: Record<string, number> = {};
let isOver = false;
parentPort?.once('message', () => {
  isOver = true;
});

function send(agent: Agent, path: string, body: string | Buffer): Promise<void> {
  const headers = { authorization, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  return new Promise((resolve) => {
    const note = (problem: string) => {
      answers[problem] = (answers[problem] ?? 0) + 1;
      resolve();
    };
    const outgoing = request(
      { agent, host: '127.0.0.1', port, path, method: 'POST', headers, timeout: 60_000 },
      (response) => {
        response.resume();
        response.once('end', () => note(String(response.statusCode)));
        response.once('error', () => note('broken'));
      },
    );
    outgoing.once('timeout', () => outgoing.destroy());
    outgoing.once('error', () => note('broken'));
    outgoing.end(body);
  });
}

async function client(agent: Agent, next: (n: number) => readonly [string, string | Buffer]): Promise<void> {
  for (let n = 0; !isOver; n++) {
    await send(agent, ...next(n));
    await pause(5);
  }
}

async function main(): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: connectionsMax });
  const query = '/api/v2/databases/shop/query';
  const queryRequest = (sql: string) => [query, JSON.stringify({ sql })] as const;
  const clients: Record<HostileKind, () => Promise<void>[]> = {
    statements: () =>
      Array.from({ length: 8 }, (_, c) =>
        client(agent, (n) => queryRequest(statements[(n + c) % statements.length] as string)),
      ),
    bodies: () =>
      Array.from({ length: 3 }, (_, c) => client(agent, (n) => bodies[(n + c) % bodies.length] as (typeof bodies)[0])),
    connections: () =>
      Array.from({ length: connectionsMax }, () => client(agent, (n) => queryRequest(`select ${n % 100}`))),
  };
  await Promise.all(clients[kind]());
  agent.destroy();
  parentPort?.postMessage(answers);
}

await main();
