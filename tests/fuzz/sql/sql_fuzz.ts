// Sends random SQL through `query` and checks the server: only declared statuses, never a 500, never a dead server, nothing read or
// written besides the data. Counts restarts of the engine.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import type { Random } from '../../random.ts';
import type { Reply, TestServer } from '../../server.ts';
import { sqlText } from './sql_texts.ts';

export interface SqlFuzzReport {
  readonly statements: number;
  /** How often each code occurred. */
  readonly codes: Readonly<Record<string, number>>;
  readonly restarts: number;
  /** The statements during which an engine ended. */
  readonly fatal: readonly string[];
}

const clients = 4;
const valuesMax = 5;
const parameters: readonly (readonly unknown[] | object)[] = [[], [1], ['x', null], { a: 1 }, [[1, 2]], [{ x: 1 }]];

export async function fuzzSql(server: TestServer, random: Random, statements: number): Promise<SqlFuzzReport> {
  const fuzz = new SqlFuzz(server);
  await fuzz.begin();
  const perClient = Math.ceil(statements / clients);
  await Promise.all(Array.from({ length: clients }, (_, i) => fuzz.client(random.fork(i), perClient)));
  return fuzz.end();
}

class SqlFuzz {
  readonly #server: TestServer;
  readonly #codes: Record<string, number> = {};
  readonly #fatal: string[] = [];
  readonly #starts = new Set<unknown>();
  #filesBefore: readonly string[] = [];
  #statements = 0;

  constructor(server: TestServer) {
    this.#server = server;
  }

  async begin(): Promise<void> {
    const columns = ['id BIGINT', 'k INT', 'd DOUBLE', 'v STRING'].map((text) => ({
      name: text.split(' ')[0],
      type: text.split(' ')[1],
    }));
    for (const database of ['fuzzed', 'untouched']) {
      (await this.#server.delete(`/api/v2/databases/${database}?cascade=true`)).is(200);
      (await this.#server.put(`/api/v2/databases/${database}`)).is(201);
      for (const name of ['t', 'u']) {
        (await this.#server.put(`/api/v2/databases/${database}/tables/${name}`, { columns })).is(201);
      }
    }
    (await this.#server.query('untouched', 'INSERT INTO t (id) SELECT * FROM range(1000)')).is(200);
    (await this.#server.patch('/api/v2/warehouses/default', { statementTimeoutSeconds: 3 })).is(200);
    await this.#lookAtEngine();
    this.#filesBefore = readdirSync(this.#server.dataDirectory);
  }

  async client(random: Random, statements: number): Promise<void> {
    for (let i = 0; i < statements; i++) {
      if (i % 50 === 0)
        await this.#server.query(
          'fuzzed',
          `INSERT INTO t SELECT range, range % 5, range / 3, 'x' || range FROM range(${valuesMax * 10})`,
        );
      const sql = sqlText(random);
      const body = {
        sql,
        ...(random.chance(0.3) ? { parameters: random.pick(parameters) } : {}),
        ...(random.chance(0.2) ? { numbers: 'string' } : {}),
        rowsMax: 100,
      };
      const explain = random.chance(0.05);
      const path = `/api/v2/databases/fuzzed/${explain ? 'explain' : 'query'}`;
      const reply = await this.#server.post(path, explain ? { sql } : body).catch((cause: Error) => {
        throw new Error(`${JSON.stringify(body)}: ${cause.message}`, { cause });
      });
      this.#note(sql, reply);
      if (reply.code === 'WAREHOUSE_FAILED') await this.#lookAtEngine();
    }
  }

  async end(): Promise<SqlFuzzReport> {
    await this.#lookAtEngine();
    assert.deepEqual(await this.#server.rows('untouched', 'SELECT count(*), sum(id) FROM t'), [[1000, 499500]]);
    assert.deepEqual(readdirSync(this.#server.dataDirectory), this.#filesBefore, 'files in the data directory');
    for (const name of ['', '.duckdb', '.csv'])
      assert(!existsSync(`/tmp/tabularium-fuzz-escaped${name}`), 'it got out');
    const restarts = this.#starts.size - 1;
    return { statements: this.#statements, codes: this.#codes, restarts, fatal: this.#fatal };
  }

  #note(sql: string, reply: Reply): void {
    this.#statements++;
    this.#codes[reply.code] = (this.#codes[reply.code] ?? 0) + 1;
    assert(!reply.text.includes('root:x:0'), `a file was read by ${JSON.stringify(sql)}`);
    if (reply.code === 'WAREHOUSE_FAILED') this.#fatal.push(sql.slice(0, 500));
    if (reply.status === 200) return;
    assert(
      !/\/tmp\/|\.duckdb\b|node:internal|\.ts:\d/.test(reply.text.replaceAll(JSON.stringify(sql).slice(1, -1), '')) ||
        sql.includes('/tmp/'),
      `an answer tells too much: ${reply.text}`,
    );
  }

  /** When the engine was last started; changes with a restart. */
  async #lookAtEngine(): Promise<void> {
    const [backend] = (await this.#server.get('/api/v2/warehouses/default/backends')).at<{ lastStartAt: string }[]>(
      'backends',
    );
    this.#starts.add(backend?.lastStartAt);
  }
}
