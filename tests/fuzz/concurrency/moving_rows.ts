// Clients insert rows and create tables while others rename the database and the tables, and change columns and keys. In the end
// every acknowledged row and table exists once; refused ones do not.
import assert from 'node:assert/strict';
import { eventually } from '../../deadline.ts';
import type { Random } from '../../random.ts';
import type { Reply, TestServer } from '../../server.ts';

export interface MovingOptions {
  readonly random: Random;
  readonly inserters: number;
  readonly operationsEach: number;
}

export interface MovingReport {
  readonly inserted: number;
  readonly refused: Readonly<Record<string, number>>;
  readonly changes: number;
  readonly tables: number;
}

const databases = ['moving/a', 'moving b'];
const tables = ['one', 'two'];
/** Transient refusals: something else is in progress. */
const passing = new Set(['CHANGE_IN_PROGRESS', 'WAREHOUSE_BUSY', 'OBJECT_NOT_FOUND', 'OBJECT_ALREADY_EXISTS']);

export async function moveRows(server: TestServer, options: MovingOptions): Promise<MovingReport> {
  const run = new MovingRun(server, options);
  return run.all();
}

class MovingRun {
  readonly #server: TestServer;
  readonly #options: MovingOptions;
  readonly #batches = new Map<number, { table: string; rows: number; acknowledged: boolean }>();
  readonly #created: string[] = [];
  readonly #refused: Record<string, number> = {};
  #batch = 0;
  #changes = 0;
  #halted = false;

  constructor(server: TestServer, options: MovingOptions) {
    this.#server = server;
    this.#options = options;
  }

  async all(): Promise<MovingReport> {
    for (const name of databases) await this.#server.delete(`${this.#uri(name)}?cascade=true`);
    (await this.#server.put(this.#uri(databases[0] as string))).is(201);
    const columns = [
      { name: 'id', type: 'BIGINT' },
      { name: 'batch', type: 'BIGINT' },
      { name: 'v', type: 'STRING' },
    ];
    for (const name of tables) await this.#ensureTable(databases[0] as string, name, columns);
    const { random, inserters, operationsEach } = this.#options;
    const changing = [this.#rename(random.fork(1)), this.#alter(random.fork(2)), this.#create(random.fork(3))];
    const inserting = Array.from({ length: inserters }, (_, i) => this.#insert(random.fork(10 + i), operationsEach));
    await Promise.all(inserting).finally(() => {
      this.#halted = true;
    });
    await Promise.all(changing);
    await this.#look();
    const inserted = [...this.#batches.values()].filter(({ acknowledged }) => acknowledged).length;
    return { inserted, refused: this.#refused, changes: this.#changes, tables: this.#created.length };
  }

  #uri(database: string, ...rest: readonly string[]): string {
    const more = rest.map((part, i) => (i % 2 === 0 ? part : encodeURIComponent(part)));
    return ['/api/v2/databases', encodeURIComponent(database), ...more].join('/');
  }

  async #ensureTable(database: string, name: string, columns: object): Promise<void> {
    (await this.#server.post(this.#uri(database, 'tables'), { name, columns })).is(201);
  }

  /** Whether it was done, by a task if it takes one; any refusal that is not transient is an error. */
  async #isDone(reply: Reply): Promise<boolean> {
    if (reply.status === 202) {
      const task = await eventually(reply.request, async () => {
        const record = await this.#server.ended(reply);
        return ['succeeded', 'failed'].includes(record.at('state')) && record;
      });
      assert.equal(task.at('state'), 'succeeded', `${reply.request}: ${task.text}`);
      return true;
    }
    if (reply.status < 300) return true;
    this.#refused[reply.code] = (this.#refused[reply.code] ?? 0) + 1;
    assert(passing.has(reply.code), `${reply.request}: ${reply.text}`);
    return false;
  }

  async #insert(random: Random, operations: number): Promise<void> {
    for (let i = 0; i < operations; i++) {
      const [database, table, batch] = [random.pick(databases), random.pick(tables), ++this.#batch];
      const rows = 1 + random.below(20);
      const entry = { table, rows, acknowledged: false };
      this.#batches.set(batch, entry);
      const reply = random.chance(0.6)
        ? await this.#server.post(this.#uri(database, 'tables', table, 'rows'), {
            rows: Array.from({ length: rows }, (_, n) => ({ id: batch * 1000 + n, batch, v: `v${n}` })),
          })
        : await this.#server.query(
            database,
            `INSERT INTO ${table} (id, batch, v) SELECT ${batch * 1000} + range, ${batch}, 'v' FROM range(${rows})`,
          );
      entry.acknowledged = await this.#isDone(reply);
    }
  }

  async #rename(random: Random): Promise<void> {
    while (!this.#halted) {
      const from = random.pick(databases);
      const newName = random.pick(databases);
      if (await this.#isDone(await this.#server.post(`${this.#uri(from)}/rename`, { newName }))) this.#changes++;
    }
  }

  /** Changes in place, and some that rewrite the table. */
  async #alter(random: Random): Promise<void> {
    let n = 0;
    while (!this.#halted) {
      const table = this.#uri(random.pick(databases), 'tables', random.pick(tables));
      const name = `c${++n}`;
      const draw = random.next();
      const reply =
        draw < 0.3
          ? await this.#server.post(`${table}/columns`, { name, type: 'CHAR(5)', defaultValue: "'x'" })
          : draw < 0.5
            ? await this.#server.post(`${table}/columns`, { name, type: 'INT' })
            : draw < 0.8
              ? await this.#server.patch(table, { unique_key_constraints: random.chance(0.5) ? ['id'] : null })
              : await this.#server.delete(`${table}/columns/c${1 + random.below(n)}`);
      if (await this.#isDone(reply)) this.#changes++;
    }
  }

  async #create(random: Random): Promise<void> {
    for (let n = 1; !this.#halted; n++) {
      const name = `made ${n}`;
      const body = { name, columns: [{ name: 'id', type: 'INT' }] };
      if (await this.#isDone(await this.#server.post(this.#uri(random.pick(databases), 'tables'), body)))
        this.#created.push(name);
    }
  }

  async #look(): Promise<void> {
    // A change that was answered 503 may still be completed or reverted.
    await eventually('no change is open', async () => {
      const { result } = (await this.#server.get('/api/v2/warehouses/default')).is(200);
      return result.openChanges === 0;
    });
    const replies = await Promise.all(databases.map((name) => this.#server.get(this.#uri(name))));
    const index = replies.findIndex(({ status }) => status === 200);
    assert.equal(replies.filter(({ status }) => status === 200).length, 1, 'the database has one name');
    const database = databases[index] as string;
    for (const table of tables) {
      const sql = `SELECT batch, count(*), count(DISTINCT id) FROM ${table} GROUP BY batch`;
      const placeOf = new Map<number, string>();
      for (const [batch, rows, ids] of await this.#server.rows(database, sql)) {
        placeOf.set(Number(batch), `${rows}/${ids}`);
      }
      for (const [batch, { table: into, rows, acknowledged }] of this.#batches) {
        if (into !== table) continue;
        const expected = acknowledged ? `${rows}/${rows}` : undefined;
        assert.equal(
          placeOf.get(batch),
          expected,
          `batch ${batch} of ${table}, ${acknowledged ? '' : 'not '}acknowledged`,
        );
      }
    }
    for (const name of this.#created) {
      (await this.#server.get(this.#uri(database, 'tables', name))).is(200);
      assert.deepEqual(await this.#server.rows(database, `SELECT count(*) FROM "${name}"`), [[0]]);
    }
  }
}
