// One honest principal and three hostile ones: compares the latency of the honest one's requests with that on an idle server, and checks
// that all of its responses are correct and none of its rows is lost or duplicated.
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Api, isAcknowledged, pathOf } from '../faults/injection/api.ts';
import { type ServerProcess, startProcess } from '../server.ts';
import type { HostileKind, HostileOptions } from './hostile_principal.ts';

export interface HostileReport {
  readonly quiet: Latency;
  readonly hostile: Latency;
  /** Requests of the honest principal that were answered 503, by outcome; and those that also failed when they were retried once. */
  readonly refused: Readonly<Record<string, number>>;
  readonly refusedTwice: number;
  readonly problems: readonly string[];
  /** The responses to the hostile principals. */
  readonly answers: Readonly<Record<string, unknown>>;
}

interface Latency {
  readonly requests: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** By kind of request. */
  readonly p99MsOf: Readonly<Record<string, number>>;
}

/** The honest client sends these kinds of requests in rotation. */
const requestKinds = ['record', 'query', 'insert'] as const;
const round = (ms: number) => Math.round(ms * 10) / 10;
const quantile = (sorted: readonly number[], share: number) => round(sorted[Math.floor(sorted.length * share)] ?? 0);
const ascending = (a: number, b: number) => a - b;

const password = 'correct horse battery';
const kinds: readonly HostileKind[] = ['statements', 'bodies', 'connections'];
const quietShare = 0.15;
/** The honest client's rate: it measures the server, not its own queue. */
const everyMs = 20;
const p99RatioMax = 10;
const refusedShareMax = 1 / 10_000;

export async function measureBesideHostile(durationMs: number): Promise<HostileReport> {
  const server = await startProcess(['--connections-per-address-max=100000', '--log-level=fatal']);
  try {
    await prepare(server);
    const honestClient = new HonestClient(new Api(server.url, server.token));
    const quiet = await honestClient.measure(durationMs * quietShare);
    const hostiles = kinds.map((kind) => {
      const authorization = `Basic ${Buffer.from(`${kind}:${password}`).toString('base64')}`;
      const workerData: HostileOptions = { kind, port: server.port, authorization };
      return { kind, worker: new Worker(new URL('./hostile_principal.ts', import.meta.url), { workerData }) };
    });
    const hostile = await honestClient.measure(durationMs * (1 - quietShare));
    const answers = await Promise.all(
      hostiles.map(async ({ kind, worker }) => [kind, await untilExit(worker)] as const),
    );
    await honestClient.checkRows();
    const { problems, refused, refusedTwice } = honestClient;
    if (hostile.p99Ms > p99RatioMax * quiet.p99Ms)
      problems.push(
        `p99 ${hostile.p99Ms} ms with the hostile principals is more than ${p99RatioMax} times ${quiet.p99Ms} ms`,
      );
    const refusals = Object.values(refused).reduce((sum, count) => sum + count, 0);
    if (refusals > Math.max(1, hostile.requests * refusedShareMax) || refusedTwice > 0)
      problems.push(`${refusals} of ${hostile.requests} requests were refused, ${refusedTwice} of them twice`);
    return { quiet, hostile, refused, refusedTwice, problems, answers: Object.fromEntries(answers) };
  } finally {
    await server.close();
  }
}

async function prepare(server: ServerProcess): Promise<void> {
  await server.put('/api/v2/databases/shop');
  for (const [name, columns] of Object.entries({ t: 'id BIGINT, text VARCHAR', entries: 'id BIGINT' }))
    (await server.post('/api/v2/databases/shop/tables', { sql: `CREATE TABLE ${name} (${columns})` })).is(201);
  await server.query('shop', "INSERT INTO t SELECT range, 'text ' || range FROM range(100000)");
  for (const name of kinds) {
    (await server.post('/api/v2/users', { name, password })).is(201);
    for (const [privilege, on] of [
      ['use', '/api/v2/warehouses/default'],
      ['read', '/api/v2/databases/shop'],
      ['write', '/api/v2/databases/shop/tables/t'],
    ])
      (await server.post(`/api/v2/users/${name}/grants`, { privilege, on })).is(201);
  }
}

class HonestClient {
  readonly problems: string[] = [];
  readonly refused: Record<string, number> = {};
  refusedTwice = 0;
  readonly #api: Api;
  #inserted = 0;

  constructor(api: Api) {
    this.#api = api;
  }

  /** Sends one request after another, rotating through the kinds. */
  async measure(durationMs: number): Promise<Latency> {
    const times: number[] = [];
    for (const endMs = performance.now() + durationMs; performance.now() < endMs; await pause(everyMs)) {
      const startMs = performance.now();
      await this.#request(times.length);
      times.push(performance.now() - startMs);
    }
    const p99MsOf = requestKinds.map((requestKind, kind) => {
      const kindTimes = times.filter((_ms, n) => n % requestKinds.length === kind).sort(ascending);
      return [requestKind, quantile(kindTimes, 0.99)] as const;
    });
    times.sort(ascending);
    const quantileAt = (share: number) => quantile(times, share);
    return {
      requests: times.length,
      p50Ms: quantileAt(0.5),
      p99Ms: quantileAt(0.99),
      maxMs: quantileAt(1 - 1e-9),
      p99MsOf: Object.fromEntries(p99MsOf),
    };
  }

  async checkRows(): Promise<void> {
    const sql = 'SELECT count(*), count(DISTINCT id) FROM entries';
    const { result } = await this.#sent({ method: 'POST', path: pathOf('databases', 'shop', 'query'), body: { sql } });
    const [[count, distinct]] = result.rows as [[number, number]];
    if (count !== this.#inserted || distinct !== this.#inserted)
      this.problems.push(`${this.#inserted} rows were acknowledged, ${count} exist, ${distinct} of them distinct`);
  }

  async #request(n: number): Promise<void> {
    const id = n % 100_000;
    if (requestKinds[n % requestKinds.length] === 'record') {
      const { result } = await this.#sent({ method: 'GET', path: pathOf('databases', 'shop', 'tables', 't') });
      if (result.name !== 't') this.problems.push(`the record of t: ${JSON.stringify(result).slice(0, 200)}`);
    } else if (requestKinds[n % requestKinds.length] === 'query') {
      const body = { sql: 'SELECT text FROM t WHERE id = $1', parameters: [id] };
      const { result } = await this.#sent({ method: 'POST', path: pathOf('databases', 'shop', 'query'), body });
      if (JSON.stringify(result.rows) !== `[["text ${id}"]]`)
        this.problems.push(`row ${id}: ${JSON.stringify(result).slice(0, 200)}`);
    } else {
      const path = pathOf('databases', 'shop', 'tables', 'entries', 'rows');
      const body = { rows: [[this.#inserted + 1]] };
      await this.#sent({ method: 'POST', path, body, key: crypto.randomUUID() });
      this.#inserted++;
    }
  }

  async #sent(request: Parameters<Api['send']>[0]) {
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#api.send(request);
      if (isAcknowledged(answer)) return answer;
      if (answer.status !== 503) throw new Error(`${request.path}: ${JSON.stringify(answer).slice(0, 500)}`);
      const outcome = `${answer.code} ${answer.result.outcome}`;
      if (attempt === 0) this.refused[outcome] = (this.refused[outcome] ?? 0) + 1;
      else if (attempt === 1) this.refusedTwice++;
      if (attempt > 20) throw new Error(`${request.path} is still refused: ${JSON.stringify(answer)}`);
      await pause(250);
    }
  }
}

function untilExit(worker: Worker): Promise<unknown> {
  const answers = new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  worker.postMessage('stop');
  return answers;
}
