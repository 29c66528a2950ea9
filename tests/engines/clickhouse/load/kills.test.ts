// Kills at random instants while a file is loaded: of the loading process, and of a node. Repeated with its step, the load has inserted each row
// once. TEST_SEED replays, TEST_BUDGET runs longer.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { FileLoad } from '../../../../src/engines/port/load.ts';
import { Failure, outcomeOf } from '../../../../src/standard/failure.ts';
import { admissionRequest } from '../../../admission_request.ts';
import { sampled } from '../../../budget.ts';
import { definitionOf, type EngineWorld, openEngine } from '../../../conformance/engine/engine_world.ts';
import { eventually } from '../../../deadline.ts';
import { accessTo, engineOn } from '../engine.ts';
import { clusters, missingRing, type Ring, startRing } from '../ring/ring.ts';
import type { LoadOrder } from './loading_process.ts';

const rowCount = 60_000;
const seconds = 8;
/** How far the load is, in parts of the time that one takes. */
const instants = Array.from({ length: 20 }, (_, i) => (i + 0.5) / 16);
const cases = (['process', 'node'] as const).flatMap((killed) =>
  (['append', 'replace'] as const).flatMap((mode) => instants.map((instant) => ({ killed, mode, instant }))),
);
const columns = { id: 'BIGINT', part: 'INT', name: 'STRING' };

let ring: Ring;
let world: EngineWorld;
let file: string;
/** The time that an undisturbed load takes, in milliseconds. */
let loadMs: number;

before(async () => {
  if (missingRing !== false) return;
  ring = await startRing(2);
  world = await openEngine({}, engineOn(accessTo(ring.nodes), ring.nodes));
  file = join(world.spool, 'rows.csv');
  const lines = Array.from({ length: rowCount }, (_, id) => `${id},${id % 3},name ${id}`);
  writeFileSync(file, `id,part,name\n${lines.join('\n')}\n`);
  const began = performance.now();
  await load(await loadInto('undisturbed', 'append'));
  loadMs = performance.now() - began;
});
after(async () => {
  await world?.close();
  await ring?.close();
});

const load = (work: FileLoad) => world.engine.load(work, { ...admissionRequest, signal: new AbortController().signal });

/** A load into a new table, which has rows for `replace` to remove, in three partitions. */
async function loadInto(table: string, mode: FileLoad['mode']): Promise<FileLoad> {
  const definition = definitionOf(columns, { partitionBy: ['part'] });
  const ref = { catalog: world.catalog, database: world.database, table };
  // A node that was killed in the case before takes changes again when its health was checked.
  await eventually('all nodes take changes', () =>
    world.change({ kind: 'createTable', table: ref, definition }).then(
      () => true,
      () => false,
    ),
  );
  if (table !== 'undisturbed') await available();
  const rows = `INSERT INTO ${table} SELECT -1 - number, 3, 'old' FROM numbers(100)`;
  // A check of a node may fail on a busy machine also after it was answered.
  await eventually('the first rows are stored', () =>
    world.run(rows).then(
      () => true,
      (error: unknown) => {
        if (error instanceof Failure && outcomeOf(error) === 'notApplied') return false;
        throw error;
      },
    ),
  );
  return {
    table: ref,
    definition,
    file: { path: file, format: 'csv', csv: {} },
    mode,
    errorsMax: 0,
    dryRun: false,
    rejectsPath: join(world.spool, `${randomUUID()}.rejects`),
    step: randomUUID(),
  };
}

/** A node that was killed is read again when its health was checked. */
const available = () =>
  eventually('all nodes are read', () =>
    world.run('SELECT count(*) FROM undisturbed').then(
      () => true,
      () => false,
    ),
  );

/** Repeats the load until it answers, as the tasks of the server do. */
async function completed(work: FileLoad): Promise<void> {
  await eventually('the load is complete', async () => {
    const { rowsLoaded } = await load(work).catch(() => ({ rowsLoaded: -1 }));
    return rowsLoaded === rowCount;
  });
}

async function killProcess(work: FileLoad, afterMs: number): Promise<void> {
  const order: LoadOrder = { urls: ring.nodes.map(({ url }) => url), cluster: clusters.shards, load: work };
  const program = fileURLToPath(new URL('loading_process.ts', import.meta.url));
  const child = spawn(process.execPath, [program, JSON.stringify(order)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  await Promise.race([once(child.stdout, 'data'), exited]);
  await Promise.race([wait(afterMs), exited]);
  child.kill('SIGKILL');
  await exited;
}

async function killNode(work: FileLoad, afterMs: number, node: number): Promise<void> {
  const loading = load(work).catch(() => undefined);
  await wait(afterMs);
  await ring.nodes[node]?.kill();
  await loading;
  await ring.nodes[node]?.start();
}

test('a load that is killed and repeated has inserted each row once', { skip: missingRing }, async (t) => {
  let number = 0;
  for (const { killed, mode, instant } of sampled(t, seconds, cases, (taken) => taken > 2)) {
    const table = `killed_${++number}`;
    const work = await loadInto(table, mode);
    if (killed === 'process') await killProcess(work, instant * loadMs);
    else await killNode(work, instant * loadMs, number % 2);
    await completed(work);
    await available();
    const repeated = await load(work);
    assert.deepEqual(repeated, { rowsLoaded: rowCount, rowsRejected: 0, repeated: true });
    const sums = `count(*), count(DISTINCT id), sum(id), countIf(name = 'old')`;
    const { rows } = await world.run(`SELECT ${sums} FROM ${table}`);
    assert(rows.kind === 'text');
    const old = mode === 'append' ? 100 : 0;
    const idSum = (rowCount * (rowCount - 1)) / 2 - (old === 0 ? 0 : 5050);
    assert.deepEqual(
      JSON.parse(rows.text),
      [rowCount + old, rowCount + old, idSum, old],
      `${killed} killed at ${instant} of a load that was to ${mode}`,
    );
    assert.equal(await world.engine.rowsLoadedByStep(world.catalog, work.step), rowCount);
  }
});
