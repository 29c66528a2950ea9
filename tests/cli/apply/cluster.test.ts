// `apply` on a catalog in a ClickHouse cluster: what the engine cannot do is refused before anything is done; the rest is created, left alone,
// changed with its rows, and found where somebody changed it by hand.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createClusterWarehouse } from '../../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, type Ring, startRing } from '../../engines/clickhouse/ring/ring.ts';
import { type ApplyWorld, clusterFlags, newApplyWorld, requireExit } from './apply_world.ts';

const namespaces = `kind: catalog
name: lake
warehouse: ring
---
kind: database
catalog: lake
name: shop
`;

const first = `${namespaces}---
kind: table
catalog: lake
database: shop
name: orders
columns:
  - { name: id, type: BIGINT, nullable: false }
  - { name: amount, type: "DECIMAL(10,2)" }
  - { name: note, type: STRING, defaultValue: "'none'" }
  - { name: gone, type: INT }
orderBy: [id]
---
kind: table
catalog: lake
database: shop
name: returns
columns: [{ name: order_id, type: BIGINT }]
---
kind: view
catalog: lake
database: shop
name: totals
sql: SELECT count(*) AS n, sum(amount) AS total FROM orders
---
kind: role
name: analysts
---
kind: grant
role: analysts
privilege: read
on: /api/v2/catalogs/lake/databases/shop
---
kind: schedule
name: nightly
cron: "0 2 * * *"
query: { sql: SELECT count(*) FROM orders, catalog: lake, database: shop }
`;

const changed = first
  .replace('DECIMAL(10,2)', 'DECIMAL(18,2)')
  .replace('name: note, type: STRING', 'name: remark, renamedFrom: note, type: STRING')
  .replace('  - { name: gone, type: INT }\n', '  - { name: placed_on, type: DATE }\n')
  .replace('name: returns', 'name: refunds\nrenamedFrom: returns')
  .replace('FROM orders\n', 'FROM orders WHERE id > 0\n');

interface PlanRecord {
  readonly steps: readonly { readonly action: string; readonly object: string; readonly rows?: number }[];
  readonly undeclared: readonly { readonly object: string }[];
  readonly reached: boolean;
}

describe('a catalog in a cluster', { skip: missingRing }, () => {
  let ring: Ring;
  let world: ApplyWorld;
  before(async () => {
    [ring, world] = await Promise.all([startRing(2), newApplyWorld(clusterFlags)]);
    mkdirSync(world.files);
    await createClusterWarehouse(world.client, ring, { name: 'ring', cluster: 'copies' });
  });
  after(async () => {
    await world?.close();
    await ring?.close();
  });
  const declare = (text: string) => writeFileSync(join(world.files, 'lake.yaml'), text);
  const stepsOf = ({ steps }: PlanRecord) => steps.map(({ action, object }) => `${action} ${object}`);
  const planned = async (prune = false): Promise<PlanRecord> =>
    JSON.parse((await world.apply({ dryRun: true, json: true, prune })).stdout) as PlanRecord;
  const refusals = async () => {
    const refused = await world.apply();
    requireExit(refused, 1);
    return refused.stdout.split('\n').filter((line) => /^ {2}\S*:\d+:\d+: /.test(line));
  };
  const shop = () => world.client.catalogs('lake').databases('shop');
  const rowsOf = (sql: string) => world.client.query(sql, { catalog: 'lake', database: 'shop' }).all();

  test('keys and other things that the engine lacks are refused before the catalog is created', async () => {
    const table = (name: string, rest: string) =>
      `---\nkind: table\ncatalog: lake\ndatabase: shop\nname: ${name}\n${rest}\n`;
    declare(
      namespaces +
        table('keyed', 'columns: [{ name: id, type: BIGINT }]\nprimaryKey: [id]') +
        table('copies', 'columns: [{ name: id, type: BIGINT }]\nreplicationNum: 3') +
        table('wrong', 'columns: [{ name: id, type: BIGINT, defaultValue: no_such_function(1) }]'),
    );
    writeFileSync(join(world.files, 'more.sql'), 'CREATE TABLE lake.shop.in_sql (id BIGINT PRIMARY KEY);');
    const lines = await refusals();
    assert.equal(lines.length, 4, lines.join('\n'));
    assert.match(lines[0] ?? '', /table lake\.shop\.keyed: NOT_SUPPORTED_BY_ENGINE: .*does not support enforced keys/);
    assert.match(lines[1] ?? '', /table lake\.shop\.copies: INVALID_PARAMETER: /);
    assert.match(lines[2] ?? '', /table lake\.shop\.wrong: /);
    assert.match(lines[3] ?? '', /more\.sql:1:1: table lake\.shop\.in_sql: NOT_SUPPORTED_BY_ENGINE: /);
    assert.deepEqual((await world.client.catalogs.list().all()).map(({ name }) => name).toSorted(), [
      'default',
      'ring',
    ]);
    writeFileSync(join(world.files, 'more.sql'), '');
  });

  test('it is created, and a second run changes nothing', async () => {
    declare(first);
    const made = await world.apply();
    requireExit(made, 0);
    assert.match(made.stderr, /\n8 steps done: the server has what the files declare\n$/);
    const rows = [
      { id: 1, amount: '12.50', note: 'a', gone: 1 },
      { id: 2, amount: '99999999.99', gone: 2 },
    ];
    (await world.server.post('/api/v2/catalogs/lake/databases/shop/tables/orders/rows', { rows })).is(201);
    const again = await world.apply({ prune: true });
    requireExit(again, 0);
    assert.deepEqual([again.stdout, again.stderr], ['nothing to change: the server has what the files declare\n', '']);
  });

  test('what was changed by hand is found', async () => {
    await shop().tables('returns').columns.create({ name: 'by_hand', type: 'INT' });
    await shop().views('totals').delete();
    await shop().tables('orders').update({ comment: 'not declared' });
    const plan = await planned();
    assert.deepEqual(stepsOf(plan), ['create view lake.shop.totals']);
    assert.deepEqual(
      plan.undeclared.map(({ object }) => object),
      ['column "by_hand" of table lake.shop.returns'],
    );
    requireExit(await world.apply({ prune: true }), 0);
    assert.deepEqual(stepsOf(await planned(true)), []);
  });

  test('changes that the cluster cannot make are refused, and nothing is changed', async () => {
    // The statistics are taken again from time to time.
    const definition = async () => ({ ...(await shop().tables('orders').get()), statistics: null });
    const before = await definition();
    const withoutRename = changed.replace('renamedFrom: note, ', '').replace('remark', 'note');
    const cases: readonly (readonly [readonly (readonly [string, string])[], RegExp])[] = [
      [[['id, type: BIGINT', 'id, type: LARGEINT']], /cannot change the type of the column "id", by which the rows/],
      [
        [
          ['name: id, type', 'name: number, renamedFrom: id, type'],
          ['orderBy: [id]', 'orderBy: [number]'],
        ],
        /cannot rename the column "id", by which/,
      ],
      [
        [['orderBy: [id]', 'orderBy: [id, note]']],
        /orderBy of a table cannot be changed from \["id"\] to \["id","note"\]/,
      ],
      [[['orderBy: [id]', 'unique_key_constraints: [id]']], /NOT_SUPPORTED_BY_ENGINE/],
    ];
    for (const [replacements, expected] of cases) {
      declare(replacements.reduce((text, [from, to]) => text.replace(from, to), withoutRename));
      const lines = await refusals();
      assert.equal(lines.length, 1, lines.join('\n'));
      assert.match(lines[0] ?? '', expected);
    }
    assert.deepEqual(await definition(), before);
  });

  test('types are widened, columns and tables renamed by hints, and columns dropped with --prune; all rows stay', async () => {
    declare(changed);
    const plan = await planned(true);
    assert.deepEqual(stepsOf(plan), [
      'drop view lake.shop.totals',
      'rename table lake.shop.returns',
      'rename column "note" of table lake.shop.orders',
      'rewrite table lake.shop.orders',
      'create view lake.shop.totals',
      'drop a column of table lake.shop.orders',
    ]);
    requireExit(await world.apply(), 0);
    const columns = async () =>
      (await shop().tables('orders').get()).columns.map(({ name, type }) => `${name} ${type}`);
    assert.ok((await columns()).includes('gone INT'));
    requireExit(await world.apply({ prune: true }), 0);
    assert.deepEqual(await columns(), ['id BIGINT', 'amount DECIMAL(18,2)', 'remark STRING', 'placed_on DATE']);
    assert.deepEqual(await rowsOf('SELECT id, amount, remark, placed_on FROM orders ORDER BY id'), [
      { id: 1n, amount: '12.50', remark: 'a', placed_on: null },
      { id: 2n, amount: '99999999.99', remark: 'none', placed_on: null },
    ]);
    assert.deepEqual(await rowsOf('SELECT n, total FROM totals'), [{ n: 2n, total: '100000012.49' }]);
    assert.deepEqual(
      (await shop().tables.list().all()).map(({ name }) => name),
      ['orders', 'refunds'],
    );
    const again = await world.apply({ prune: true });
    requireExit(again, 0);
    assert.equal(again.stderr, '');
  });
});
