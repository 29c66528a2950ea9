// `apply` against a real server, as a process where the process shows something: a directory with 3 databases, 30 tables, views, roles, grants and schedules is created, is
// left alone, is changed, and what somebody changes by hand is found.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../deadline.ts';
import { missingTerminal, openTerminal } from '../remote/terminal.ts';
import { type ApplyWorld, definitionsOf, newApplyWorld, requireExit } from './apply_world.ts';
import { largeTable, writeWarehouse } from './warehouse_files.ts';

interface PlanRecord {
  readonly steps: readonly {
    readonly action: string;
    readonly object: string;
    readonly rows?: number;
    readonly bytes?: number;
    readonly differences: readonly { readonly field: string; readonly from?: string; readonly to?: string }[];
  }[];
  readonly undeclared: readonly { readonly object: string; readonly rows?: number }[];
  readonly reached: boolean;
}

let world: ApplyWorld;
before(async () => {
  world = await newApplyWorld();
});
after(() => world.close());

const planned = async (prune = false): Promise<PlanRecord> =>
  JSON.parse((await world.apply({ dryRun: true, json: true, prune })).stdout) as PlanRecord;
const stepsOf = ({ steps }: PlanRecord) => steps.map(({ action, object }) => `${action} ${object}`);

test('a directory is created, and a second run changes nothing', async () => {
  writeWarehouse(world.files, false);
  // There is no terminal to ask on: the plan is shown, and nothing is done.
  const unasked = await world.line.run(['apply', world.files]);
  requireExit(unasked, 2);
  assert.match(unasked.stderr, /give --yes/);
  assert.match(unasked.stdout, /\nplan: 52 to create\n$/);
  assert.match(
    unasked.stdout,
    /\n\+ create table default\.stock\.t7 .*\n {4}\+ column: id BIGINT not null\n {4}\+ column: amount DECIMAL\(10,2\)\n/,
  );
  assert.deepEqual(await world.client.databases.list().all(), []);
  const made = await world.line.run(['apply', world.files, '--yes']);
  requireExit(made, 0);
  assert.match(made.stderr, /\n52 of 52: .*\n52 steps done: the server has what the files declare\n$/);
  const first = await definitionsOf(world.client, true);
  const again = await world.apply();
  requireExit(again, 0);
  assert.deepEqual([again.stdout, again.stderr], ['nothing to change: the server has what the files declare\n', '']);
  assert.deepEqual(await definitionsOf(world.client, true), first);
});

test('what was changed by hand is found, and is as declared again', async () => {
  const { client } = world;
  const sales = client.databases('sales');
  await sales.tables('t1').columns('note').delete();
  await sales.tables('t1').columns.create({ name: 'by_hand', type: 'INT' });
  await sales.views('below').update({ sql: 'SELECT id, amount FROM t1', comment: 'not declared' });
  await sales.tables('t6').update({ comment: 'by hand' });
  await client.databases('stock').views('of_renamed').delete();
  await client.roles('readers').update({ members: [] });
  await client.roles('writers').update({ properties: { more: 'x' } });
  const [grant] = await client.roles('writers').grants.list().all();
  await client.roles('writers').grants(String(grant?.grantId)).delete();
  await client.roles('readers').grants.create({ privilege: 'use', on: '/api/v2/warehouses' });
  await client.schedules('nightly').update({ cron: '0 0 * * *', query: { warehouse: 'default' } });
  await sales.tables.create({ name: 'stray', columns: [{ name: 'id', type: 'INT' }] });
  const plan = await planned();
  assert.deepEqual(stepsOf(plan).sort(), [
    'change role readers',
    'change role writers',
    'change schedule nightly',
    'change table default.sales.t1',
    'change table default.sales.t6',
    'change view default.sales.below',
    `create grant write on ${grant?.on} to role writers`,
    'create view default.stock.of_renamed',
  ]);
  assert.deepEqual(
    plan.undeclared.map(({ object }) => object),
    [
      'column "by_hand" of table default.sales.t1',
      'grant use on /api/v2/warehouses to role readers',
      'table default.sales.stray',
    ],
  );
  requireExit(await world.apply(), 0);
  assert.equal((await sales.tables('stray').get()).name, 'stray');
  assert.deepEqual((await client.schedules('nightly').get()).query, {
    catalog: 'default',
    database: 'staff',
    sql: 'SELECT count(*) FROM t0',
  });
  assert.deepEqual((await client.roles('writers').get()).properties, { team: 'a', gone: 'x' });
  const pruned = await world.apply({ prune: true, json: true });
  requireExit(pruned, 0);
  const record = JSON.parse(pruned.stdout) as PlanRecord;
  assert.equal(record.reached, true);
  assert.deepEqual(stepsOf(record), [
    'drop grant use on /api/v2/warehouses to role readers',
    'drop a column of table default.sales.t1',
    'drop table default.sales.stray',
  ]);
});

test('a changed directory is applied: what is rewritten or dropped is shown with its size before', async () => {
  const { client } = world;
  const { database, table, rows } = largeTable;
  await client.query(`INSERT INTO ${database}.${table} SELECT range, range, 'n', now() FROM range(${rows})`).summary();
  await client.query("INSERT INTO stock.t5 SELECT range, 1.5, 'n', now() FROM range(10)").summary();
  writeWarehouse(world.files, true);
  await eventually(
    'the statistics are up to date',
    async () => (await client.databases('stock').tables('t5').get()).statistics.rowCount === 10,
  );
  const plan = await planned(true);
  const sized = (action: string) => plan.steps.filter((step) => step.action === action && step.rows !== undefined);
  const [rewritten, ...others] = sized('rewrite');
  assert.deepEqual([others.length, rewritten?.object, rewritten?.rows], [0, 'table default.sales.t0', rows]);
  assert.ok((rewritten?.bytes ?? 0) > 100_000, String(rewritten?.bytes));
  assert.deepEqual(
    rewritten?.differences.map(({ from, to }) => [from, to]),
    [['amount DECIMAL(10,2)', 'amount DECIMAL(18,2)']],
  );
  const dropped = Object.fromEntries(sized('drop').map(({ object, rows: count }) => [object, count]));
  assert.deepEqual(dropped, {
    'a column of table default.sales.t5': 0,
    'a column of table default.stock.t5': 10,
    'a column of table default.people.t5': 0,
    'table default.sales.t2': 0,
    'table default.stock.t2': 0,
    'table default.staff.t2': 0,
  });
  const text = await world.apply();
  requireExit(text, 0);
  assert.match(text.stdout, /\n! rewrite table default\.sales\.t0 \(120,000 rows, [\d.]+ [kM]B\)/);
  assert.match(text.stdout, /\n {4}table default\.stock\.t2 \(0 rows, 0 B\)\n/);
  assert.match(text.stdout, /\n~ rename database default\.staff .*\n {4}~ name: "staff" → "people"\n/);

  // Nothing was dropped yet.
  assert.deepEqual(
    (await client.databases('stock').tables('t5').get()).columns.map(({ name }) => name),
    ['id', 'amount', 'note', 'at'],
  );
  requireExit(await world.apply({ prune: true }), 0);
  assert.deepEqual(
    (await client.databases('stock').tables('t5').get()).columns.map(({ name }) => name),
    ['id', 'amount', 'note'],
  );
  const sql = `SELECT count(*), sum(amount) = ${(rows * (rows - 1)) / 2} FROM ${table}`;
  const counted = await world.server.post(`/api/v2/databases/${database}/query`, { sql });
  assert.deepEqual(counted.is(200).at('rows'), [[rows, true]]);
  const tables = await client.databases('people').tables.list().all();
  assert.deepEqual(
    tables.map(({ name }) => name),
    ['renamed3', 't0', 't1', 't4', 't5', 't6', 't7', 't8', 't9'],
  );
});

test('what cannot be reached is listed with its place, and nothing is changed', async () => {
  const before = await definitionsOf(world.client, true);
  const file = world.line.directory;
  writeFileSync(
    `${file}/wrong.yaml`,
    `kind: table
database: sales
name: t0
columns:
  - { name: id, type: BIGINT }
  - { name: amount, type: INT }
primaryKey: [id]
---
kind: table
database: sales
name: t1
columns: [{ name: id, type: BIGINT }]
primaryKey: []
---
kind: table
database: nowhere
name: t1
columns: [{ name: id, type: BIGINT }]
---
kind: view
database: sales
name: v
sql: CREATE VIEW other AS SELECT 1
---
kind: grant
user: nobody
privilege: read
on: /api/v2
---
kind: role
name: fresh
`,
  );
  const refused = await world.line.run(['apply', 'wrong.yaml', '--yes']);
  requireExit(refused, 1);
  const lines = refused.stdout.split('\n').filter((line) => line.startsWith('  wrong.yaml:'));
  assert.deepEqual(lines.length, 5, refused.stdout);
  assert.match(
    lines[0] ?? '',
    /wrong\.yaml:1:1: table default\.sales\.t0: CHANGE_NOT_SUPPORTED: DECIMAL\(18,2\) to INT could lose/,
  );
  assert.match(
    lines[1] ?? '',
    /wrong\.yaml:13:1: table default\.sales\.t1: primaryKey of a table cannot be changed from \["id"\] to \[\]/,
  );
  assert.match(
    lines[2] ?? '',
    /wrong\.yaml:15:1: table default\.nowhere\.t1: there is no database "default"\."nowhere"/,
  );
  assert.match(lines[3] ?? '', /wrong\.yaml:23:1: view default\.sales\.v: INVALID_PARAMETER: /);
  assert.match(lines[4] ?? '', /wrong\.yaml:25:1: grant read on \/api\/v2 to user nobody: there is no user "nobody"/);
  assert.deepEqual(await definitionsOf(world.client, true), before);
});

test('the question on a terminal: only yes carries the plan out, and Ctrl-C ends the command', {
  skip: missingTerminal,
}, async () => {
  const { client, line } = world;
  const file = join(line.directory, 'asked.yaml');
  writeFileSync(file, 'kind: role\nname: asked\n');
  const roles = async () => (await client.roles.list().all()).map(({ name }) => name);
  const answers: readonly (readonly [string, readonly string[], RegExp])[] = [
    ['no', ['no', 'Enter'], /nothing was changed\nexit code 6$/m],
    ['end of input', ['C-d'], /nothing was changed\nexit code 6$/m],
    ['Ctrl-C', ['C-c'], /^exit code 130$/m],
    ['yes', ['yes', 'Enter'], /^1 step done: the server has what the files declare\nexit code 0$/m],
  ];
  for (const [name, keys, expected] of answers) {
    assert.ok(!(await roles()).includes('asked'), `before ${name}`);
    const terminal = openTerminal(line, name, ['apply', file]);
    try {
      await terminal.shows(/^plan: 1 to create\ncarry out this step\? \(yes\/no\)/m);
      terminal.press(...keys);
      await terminal.shows(expected);
    } finally {
      terminal.close();
    }
  }
  assert.ok((await roles()).includes('asked'));
});

test('the example is applied, and applied again without a change', async () => {
  const example = fileURLToPath(new URL('../../../demo/apply', import.meta.url));
  requireExit(await world.line.run(['apply', example, '--yes']), 0);
  const again = await world.line.run(['apply', example, '--prune', '--yes']);
  requireExit(again, 0);
  assert.equal(again.stderr, '');
});
