// `apply` on a catalog in a ClickHouse cluster, killed or interrupted with Ctrl-C at a random step and run again until it ends: everything is as
// declared, with all rows, and the cluster has no table that an uninterrupted run does not leave. TEST_BUDGET=all breaks off at every step.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runsAll } from '../../budget.ts';
import { eventually } from '../../deadline.ts';
import { createClusterWarehouse } from '../../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { Random, seedFrom } from '../../random.ts';
import { type ApplyWorld, clusterFlags, definitionsOf, newApplyWorld, requireExit } from './apply_world.ts';
import { untilDone } from './broken_runs.ts';

const databases: readonly string[] = runsAll ? ['shop', 'stock'] : ['shop'];
const table = (database: string, name: string, rest: string) =>
  `kind: table\ncatalog: lake\ndatabase: ${database}\nname: ${name}\n${rest}`;

const first = [
  'kind: catalog\nname: lake\nwarehouse: ring\n',
  ...databases.flatMap((database) => [
    `kind: database\ncatalog: lake\nname: ${database}\n`,
    table(
      database,
      'orders',
      `columns:
  - { name: id, type: BIGINT, nullable: false }
  - { name: amount, type: "DECIMAL(10,2)" }
  - { name: note, type: STRING, defaultValue: "'none'" }
  - { name: gone, type: INT }
orderBy: [id]
`,
    ),
    table(database, 'returns', 'columns: [{ name: order_id, type: BIGINT }]\n'),
    table(database, 'dropped', 'columns: [{ name: id, type: INT }]\n'),
    `kind: view\ncatalog: lake\ndatabase: ${database}\nname: totals\nsql: SELECT count(*) AS n, sum(amount) AS total FROM orders\n`,
    `kind: view\ncatalog: lake\ndatabase: ${database}\nname: above\nsql: SELECT n FROM totals\n`,
    `kind: grant\nrole: analysts\nprivilege: read\non: /api/v2/catalogs/lake/databases/${database}\n`,
  ]),
  'kind: role\nname: analysts\nmembers: [ann]\n',
  'kind: role\nname: editors\n',
  'kind: grant\nrole: editors\nprivilege: write\non: /api/v2/catalogs/lake/databases/shop/tables/orders\n',
  'kind: schedule\nname: nightly\ncron: "0 2 * * *"\nquery: { sql: SELECT count(*) FROM orders, catalog: lake, database: shop }\n',
].join('---\n');

const changed = first
  .replaceAll('DECIMAL(10,2)', 'DECIMAL(18,2)')
  .replaceAll('name: note, type: STRING', 'name: remark, renamedFrom: note, type: STRING')
  .replaceAll('  - { name: gone, type: INT }\n', '  - { name: placed_on, type: DATE }\n')
  .replaceAll('name: returns', 'name: refunds\nrenamedFrom: returns')
  .replaceAll('FROM orders\n', 'FROM orders WHERE id > 0\n')
  .split('---\n')
  .filter((text) => !text.includes('name: dropped') && !text.includes('privilege: write'))
  .join('---\n')
  .replace('kind: role\nname: editors\n', 'kind: role\nname: writers\nrenamedFrom: editors\ncomment: changed\n');

const seed = seedFrom('APPLY_SEED');

describe('a catalog in a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let world: ApplyWorld;
  before(async () => {
    [ring, world] = await Promise.all([startRing(1), newApplyWorld(clusterFlags)]);
    mkdirSync(world.files);
    await createClusterWarehouse(world.client, ring, { name: 'ring', cluster: 'copies' });
  });
  after(async () => {
    await world?.close();
    await ring?.close();
  });
  const declare = (text: string) => writeFileSync(join(world.files, 'lake.yaml'), text);
  const lake = (database: string) => world.client.catalogs('lake').databases(database);
  const rowsOf = (sql: string, database: string) => world.client.query(sql, { catalog: 'lake', database }).all();
  /** How many databases and tables the node has. */
  const stored = async (): Promise<string> => {
    const sql =
      "SELECT uniqExact(database), count() FROM system.tables WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')";
    const response = await fetch(`${ring.nodes[0]?.url}/?query=${encodeURIComponent(sql)}`);
    const text = await response.text();
    assert.ok(response.ok, text);
    return text.trim();
  };
  const settles = (what: string, expected: string) =>
    eventually(
      `the cluster has ${expected.replace('\t', ' databases and ')} tables ${what}`,
      async () => (await stored()) === expected,
    );
  const requireUnchanged = async () => {
    const again = await world.apply({ prune: true });
    requireExit(again, 0);
    assert.equal(again.stderr, '');
  };

  test('a creation that is killed again and again ends with everything that is declared, and nothing else', async (t) => {
    t.diagnostic(`APPLY_SEED=${seed}`);
    const empty = await stored();
    declare(first);
    requireExit(await world.apply(), 0);
    const whole = { stored: await stored(), definitions: await definitionsOfLake() };
    assert.notEqual(whole.stored, empty);
    await world.client.catalogs('lake').delete({ cascade: true, purge: true });
    for (const role of ['analysts', 'editors']) await world.client.roles(role).delete();
    await world.client.schedules('nightly').delete();
    await settles('after the catalog was dropped', empty);
    const count = await untilDone(t, world, new Random(seed), 8);
    assert.ok(count > 0, 'no run was broken off');
    await requireUnchanged();
    assert.deepEqual(await definitionsOfLake(), whole.definitions);
    await settles('as after a run without interruptions', whole.stored);
  });

  test('a change with renames, a rewrite and drops that is killed again and again ends as declared, with all rows', async (t) => {
    const rows = [
      { id: 1, amount: '12.50', note: 'a', gone: 1 },
      { id: 2, amount: '99999999.99', gone: 2 },
    ];
    for (const database of databases) {
      const tables = `/api/v2/catalogs/lake/databases/${database}/tables`;
      (await world.server.post(`${tables}/orders/rows`, { rows })).is(201);
      (await world.server.post(`${tables}/returns/rows`, { rows: [{ order_id: 7 }] })).is(201);
    }
    declare(changed);
    const count = await untilDone(t, world, new Random(seed + 1), 8);
    assert.ok(count > 0, 'no run was broken off');
    await requireUnchanged();
    for (const database of databases) {
      assert.deepEqual(await rowsOf('SELECT id, amount, remark, placed_on FROM orders ORDER BY id', database), [
        { id: 1n, amount: '12.50', remark: 'a', placed_on: null },
        { id: 2n, amount: '99999999.99', remark: 'none', placed_on: null },
      ]);
      assert.deepEqual(await rowsOf('SELECT n, order_id FROM above, refunds', database), [{ n: 2n, order_id: 7n }]);
      const names = (await lake(database).tables.list().all()).map(({ name }) => name);
      assert.deepEqual(names, ['orders', 'refunds']);
    }
    assert.equal((await world.client.roles('writers').get()).comment, 'changed');
  });

  /** Of the catalog and of roles, as `definitionsOf` has those of the default catalog. */
  async function definitionsOfLake(): Promise<unknown> {
    const found: unknown[] = [await definitionsOf(world.client)];
    for (const database of databases) {
      const { tables, views } = lake(database);
      const columns = (await tables.list().all()).map(({ name, columns }) => ({ name, columns }));
      found.push(
        columns,
        (await views.list().all()).map(({ name, sql }) => ({ name, sql })),
      );
    }
    return JSON.parse(JSON.stringify(found));
  }
});
