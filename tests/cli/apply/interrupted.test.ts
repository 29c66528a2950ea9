// `apply` broken off: the command is killed, or interrupted with Ctrl-C, at a random step, and run again until it ends; the server is killed
// under a command that waits for it. By default a sample of the steps; TEST_BUDGET=all breaks off each run after its first step.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { readDeclarations } from '../../../src/cli/apply/files/declarations.ts';
import { readSources } from '../../../src/cli/apply/files/find_files.ts';
import { makePlan } from '../../../src/cli/apply/plan/make_plan.ts';
import { ServerReader } from '../../../src/cli/apply/plan/server_reader.ts';
import { runPlan } from '../../../src/cli/apply/run_plan.ts';
import { connect } from '../../../src/cli/remote/connection.ts';
import { CommandError } from '../../../src/cli/remote/exit_codes.ts';
import type { Output } from '../../../src/cli/remote/output/output.ts';
import { runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { main } from '../remote/command_process.ts';
import { type ApplyWorld, definitionsOf, newApplyWorld, requireExit } from './apply_world.ts';
import { untilDone } from './broken_runs.ts';
import { largeTable, writeWarehouse } from './warehouse_files.ts';

let world: ApplyWorld;
before(async () => {
  world = await newApplyWorld();
});
after(() => world.close());

const seed = seedFrom('APPLY_SEED');

test('a creation that is killed again and again ends with everything that is declared', async (t) => {
  const random = new Random(seed);
  t.diagnostic(`APPLY_SEED=${seed}`);
  writeWarehouse(world.files, false);
  const count = await untilDone(t, world, random, 24);
  assert.ok(count > 0, 'no run was broken off');
  const again = await world.apply({ prune: true });
  requireExit(again, 0);
  assert.equal(again.stderr, '');
});

test('a change with renames, a rewrite and drops that is killed again and again ends as declared, with all rows', async (t) => {
  const random = new Random(seed + 1);
  const { database, table, rows } = largeTable;
  await world.client
    .query(`INSERT INTO ${database}.${table} SELECT range, range, 'n', now() FROM range(${rows})`)
    .summary();
  await world.client.query("INSERT INTO staff.t3 VALUES (1, 2.5, 'kept', now())").summary();
  writeWarehouse(world.files, true);
  const count = await untilDone(t, world, random, 16);
  assert.ok(count > 0, 'no run was broken off');
  const counted = await world.server.post(`/api/v2/databases/${database}/query`, {
    sql: `SELECT count(*), sum(amount) = ${(rows * (rows - 1)) / 2}, (SELECT note FROM people.renamed3) FROM ${table}`,
  });
  assert.deepEqual(counted.is(200).at('rows'), [[rows, true, 'kept']]);
});

test('a command waits for a server that is killed under it, and completes', async (t) => {
  const random = new Random(seed + 2);
  writeWarehouse(world.files, false);
  // Back from the second version: the types that were widened cannot be narrowed, so the databases are made anew.
  for (const { name } of await world.client.databases.list().all())
    await world.client.databases(name).delete({ cascade: true, purge: true });
  await withKilledServer(t, 1 + random.below(30));
  if (!runsAll) return;
  writeWarehouse(world.files, true);
  await withKilledServer(t, 1);
});

/** Kills the server at this step; in a run of all cases, at every third step from there on. */
async function withKilledServer(t: TestContext, at: number): Promise<void> {
  const child = spawn(process.execPath, [main, 'apply', world.files, '--prune', '--yes'], {
    env: world.line.env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: deadlineMs(120_000),
  });
  let stderr = '';
  let next = at;
  let restarts = Promise.resolve();
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
    if ([...stderr.matchAll(/^\d+ of \d+: /gm)].length < next) return;
    next = runsAll ? next + 3 : Number.POSITIVE_INFINITY;
    restarts = restarts.then(() => world.restart());
  });
  const [code] = (await once(child, 'close')) as [number | null];
  await restarts;
  t.diagnostic(`the server was killed at step ${at}: ${code}`);
  // After the deadline of the client, the same command continues.
  if (code !== 0) assert.match(stderr, /run the same command again: it continues from what the server has\n/);
  requireExit(await world.apply({ prune: true }), 0);
  requireExit(await world.apply({ prune: true, dryRun: true }), 0);
}

test('what is changed between the plan and its step is reported, and not overwritten', async () => {
  const directory = join(world.line.directory, 'drift');
  mkdirSync(directory);
  const write = (comment: string) =>
    writeFileSync(
      join(directory, 'a.yaml'),
      `kind: role\nname: readers\ncomment: ${comment}\n---\nkind: role\nname: writers\ncomment: ${comment}\n---\nkind: role\nname: new_one\ncomment: ${comment}\n`,
    );
  const { server, client } = world;
  const notes: string[] = [];
  const output: Output = {
    write: async () => undefined,
    note: (text) => void notes.push(text),
    isTerminal: false,
    isInteractive: false,
    columns: 80,
    style: (_format, text) => text,
  };
  const runtime = { connect: () => connection, output: () => output, signal: new AbortController().signal };
  const connection = connect({ url: server.url }, { TABULARIUM_TOKEN: server.token });
  const reader = new ServerReader(connection, output, runtime);
  const run = { connection, runtime, reader, output, isQuiet: true };
  const planned = () => makePlan(readDeclarations(readSources(directory)), reader, { prune: false });

  write('planned');
  const changed = await planned();
  await client.roles('writers').update({ comment: 'by hand' });
  await assert.rejects(runPlan(changed, planned, run), (error) => {
    assert.ok(error instanceof CommandError);
    assert.match(error.message, /cannot change role writers: root changed it at /);
    return error.exitCode === 6;
  });
  assert.equal((await client.roles('writers').get()).comment, 'by hand');
  assert.ok(notes.includes('run the same command again: it continues from what the server has'));

  const created = await planned();
  await client.roles.create({ name: 'new_one', comment: 'by hand' });
  await assert.rejects(runPlan(created, planned, run), /OBJECT_ALREADY_EXISTS/);
  assert.equal((await client.roles('new_one').get()).comment, 'by hand');
  await runPlan(await planned(), planned, run);
  assert.deepEqual((await planned()).steps, []);
  assert.ok(JSON.stringify(await definitionsOf(client)).includes('planned'));

  // A request of an interrupted run that is applied after the next run has made its plan: that one continues by itself.
  for (const name of ['readers', 'new_one']) await client.roles(name).delete();
  const overtaken = await planned();
  assert.equal(overtaken.steps.length, 2);
  await client.roles.create({ name: 'readers', comment: 'planned' });
  await runPlan(overtaken, planned, run);
  assert.ok(
    notes.some((note) => /continuing$/.test(note)),
    notes.join('\n'),
  );
  write('changed');
  const patched = await planned();
  await client.roles('writers').update({ comment: 'changed' });
  await runPlan(patched, planned, run);
  assert.deepEqual((await planned()).steps, []);
});
