// Generated queries over known tables: the analysis lists exactly the tables that the generator put in, in whatever form it named them.
// FUZZ_SEED replays the random ones.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Random, seedFrom } from '../../../random.ts';
import { missingRing } from '../ring/ring.ts';
import { openSqlWorld, type SqlWorld, tables } from './sql_world.ts';

const seed = seedFrom('FUZZ_SEED');
const queriesMax = 300;

let world: SqlWorld;
before(async () => {
  if (!missingRing) world = await openSqlWorld();
});
after(() => world?.close());

/** Tables that have the columns `id` and `k`. */
const candidates = tables.filter(([, , , columns]) => columns.startsWith('id Int64, k '));

class QueryGenerator {
  readonly used = new Set<string>();
  readonly #random: Random;
  #count = 0;
  /** Common tables in scope. */
  readonly #commonTables: string[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  query(depth: number): string {
    const scope = this.#commonTables.length;
    const declared = depth > 0 && this.#chance(0.3) ? this.#with(depth) : '';
    let text = `${declared}${this.#select(depth)}`;
    if (depth > 0 && this.#chance(0.2)) text += ` UNION ALL ${this.#select(depth - 1)}`;
    this.#commonTables.length = scope;
    return text;
  }

  #with(depth: number): string {
    const declared = Array.from({ length: 1 + this.#below(2) }, () => {
      // Also names of tables, which it then hides.
      const name = this.#one(['q', 'r', 't', 'u', 'Mixed Case', 'from']);
      const body = this.query(depth - 1);
      this.#commonTables.push(name);
      return `${this.#quoted(name)} AS (${body})`;
    });
    return `WITH ${declared.join(', ')} `;
  }

  #select(depth: number): string {
    const alias = `a${++this.#count}`;
    const joined = `a${++this.#count}`;
    let from = `${this.#source(depth)}${this.#one([' AS ', ' '])}${alias}`;
    const join = this.#below(4);
    if (join === 1) from += `${this.#gap()}JOIN ${this.#source(depth)} AS ${joined} ON ${alias}.id = ${joined}.id`;
    if (join === 2) from += `, ${this.#source(depth)} AS ${joined}`;
    if (join === 3) from += ` LEFT ARRAY JOIN [1, 2] AS ${joined}`;
    const value = this.#one([
      `${alias}.k`,
      `CAST(${alias}.k AS Int32)`,
      `arrayMap(t -> t + 1, [${alias}.k])[1]`,
      `'FROM secret'`,
      `(${alias}.k, 1).1`,
    ]);
    const scalar = depth > 0 && this.#chance(0.2) ? `(SELECT max(id) FROM (${this.query(depth - 1)}))` : '1';
    const filter =
      depth > 0 && this.#chance(0.3) ? ` WHERE ${alias}.id IN (SELECT id FROM (${this.query(depth - 1)}))` : '';
    const exists = depth > 0 && filter !== '' && this.#chance(0.3) ? ` AND EXISTS (${this.query(depth - 1)})` : '';
    return `SELECT ${alias}.id AS id, ${value} AS k, ${scalar} AS s${this.#gap()}FROM ${from}${filter}${exists}`;
  }

  #source(depth: number): string {
    if (depth > 0 && this.#chance(0.2)) return `(${this.query(depth - 1)})`;
    const hidden = this.#commonTables.map((name) => name.toLowerCase());
    if (hidden.length > 0 && this.#chance(0.4)) return this.#quoted(this.#one(this.#commonTables));
    const [catalog, database, table] = this.#one(candidates);
    this.used.add(`${catalog === 'shop' ? '' : `${catalog}.`}${database}.${table}`);
    const isPlain = catalog === 'shop' && database === 'main' && !hidden.includes(table.toLowerCase());
    const parts = catalog !== 'shop' || this.#chance(0.3) ? [catalog, database, table] : [database, table];
    const written = isPlain && this.#chance(0.6) ? [table] : parts;
    return written.map((part) => this.#quoted(part)).join(this.#one(['.', '.', ' . ', './* x.y */']));
  }

  #quoted(name: string): string {
    const isWord = /^[a-z]+$/i.test(name) && name !== 'from';
    return this.#one([`"${name}"`, `\`${name}\``, ...(isWord ? [name, name.toUpperCase(), name] : [])]);
  }

  readonly #gap = () => this.#one([' ', '\n', ' /* FROM secret */ ', ' -- JOIN secret\n']);
  readonly #below = (n: number) => this.#random.below(n);
  readonly #chance = (p: number) => this.#random.below(1000) < p * 1000;
  readonly #one = <T>(list: readonly T[]): T => list[this.#random.below(list.length)] as T;
}

test(`${queriesMax} generated queries list exactly their tables`, { skip: missingRing }, async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  const random = new Random(seed);
  for (let n = 0; n < queriesMax; n++) {
    const generator = new QueryGenerator(random);
    const sql = generator.query(3);
    const uses = await world.uses(sql).catch((error: Error) => [error.message]);
    assert.deepEqual(uses, [...generator.used].sort(), sql);
    const names = new Set((await world.engine.tableNamesIn(sql)).map((parts) => parts.at(-1)?.toLowerCase()));
    for (const used of generator.used) assert.ok(names.has(used.split('.').at(-1)?.toLowerCase()), `${used}: ${sql}`);
  }
});
