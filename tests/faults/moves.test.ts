// Moves of a catalog of which the n-th statement of the store or the n-th call of an engine fails, or that are cancelled there, for every n (here,
// for a sample by seed): the catalog is where the task says, whole, and nothing is left over.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Budget, runsAll } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { Random, seedFrom } from '../random.ts';
import { closeExternalSystems, externalSystems } from './injection/external_systems.ts';
import { type Fault, noFault, type Sweep } from './injection/fault_plan.ts';
import { FaultyServer } from './injection/faulty_server.ts';
import { storeEngineDifferences } from './scenarios/agreement.ts';
import { leftovers } from './scenarios/leftovers.ts';
import { MovedCatalog } from './scenarios/moved_catalog.ts';

const timeout = deadlineMs(runsAll ? 3_000_000 : 120_000);
const seed = seedFrom('FAULTS_SEED');
const budget = new Budget(12, 2);
const points: readonly Sweep[] = [
  { point: 'store', isLasting: false },
  { point: 'before', isLasting: false },
  { point: 'after', isLasting: false },
];
const lasting: readonly Sweep[] = [
  { point: 'store', isLasting: true },
  { point: 'after', isLasting: true },
];
const lastingMs = 100;

describe('a move of a catalog', () => {
  let server: FaultyServer;
  const moved = new MovedCatalog();
  before(async () => {
    server = await FaultyServer.start();
    await moved.create(server.api);
  });
  after(async () => {
    await server.stop();
    await server.remove();
    await closeExternalSystems();
  });

  async function moveWith(fault: Fault, isCancelled: boolean): Promise<string> {
    const { plan, api } = server;
    let isStruck = false;
    const cancel = async (path: string) => plan.withoutCounting(() => api.post(`${path}/cancel`));
    let taskPath: string | undefined;
    server.onStrike = isCancelled
      ? () => {
          isStruck = true;
          if (taskPath !== undefined) void cancel(taskPath);
        }
      : undefined;
    await moved.prepare(api);
    plan.arm(fault);
    const answer = await moved.move(api);
    if (answer.status === 202) taskPath = String(answer.result.uri);
    // Struck before the response.
    if (isStruck && taskPath !== undefined) await cancel(taskPath);
    if (fault.isLasting) {
      await pause(lastingMs);
      plan.disarm();
    }
    const state = await plan.withoutCounting(() => moved.end(api, answer));
    const struck = plan.disarm();
    server.onStrike = undefined;
    await server.services.catalog.recover();
    const what = `${isCancelled ? 'cancelled' : 'failed'} at ${fault.point} ${fault.n}${fault.isLasting ? ' and later' : ''} (${struck}): ${state}`;
    await moved.verify(api, state === 'succeeded', what);
    return struck === undefined ? '' : (state ?? 'refused');
  }

  test('that fails at a step is completed or undone', { timeout }, async (t) => {
    t.diagnostic(`FAULTS_SEED=${seed}`);
    await moveWith(noFault, false);
    const faults = server.plan.faults([...points, ...lasting]);
    const ends: string[] = [];
    for (const fault of budget.sample(faults, new Random(seed))) ends.push(await moveWith(fault, false));
    t.diagnostic(`${ends.length} of ${faults.length} faults: ${ends.join(' ')}`);
    assert.ok(ends.some((end) => end !== ''));
  });

  test('that is cancelled at a step is completed or undone', { timeout }, async (t) => {
    await moveWith(noFault, true);
    const faults = server.plan.faults(points);
    const ends: string[] = [];
    for (const fault of budget.sample(faults, new Random(seed).fork(1))) ends.push(await moveWith(fault, true));
    t.diagnostic(`${ends.length} of ${faults.length} steps: ${ends.join(' ')}`);
    assert.ok(ends.some((end) => end !== ''));
  });

  test('that is cancelled after its switch succeeds', { timeout }, async () => {
    const fault = { point: 'before', n: 1, isLasting: false, callPrefixes: ['apply hideCatalog'] } as const;
    assert.equal(await moveWith(fault, true), 'succeeded');
  });

  test('leaves the hold of a snapshot of its catalog as it was', { timeout }, async () => {
    const { catalog } = server.services;
    const [found] = (await catalog.find([{ category: 'catalogs', name: 'lake' }])) ?? [];
    assert(found);
    const hold = { taskId: 'snapshot', catalogId: found.id, warehouse: 'default' };
    await catalog.beginSnapshotHold(hold);
    assert.equal(await moveWith(noFault, false), '');
    assert.equal((await catalog.findMove('snapshot'))?.targetId, found.id);
    await catalog.beginSnapshotHold({ ...hold, catalogId: 'its id afterwards' });
    const { catalogId, targetId } = (await catalog.findMove('snapshot')) ?? {};
    assert.deepEqual([catalogId, targetId], ['its id afterwards', 'its id afterwards']);
    await catalog.endSnapshotHold('snapshot', true);
    assert.equal(await catalog.findMove('snapshot'), undefined);
  });

  test('leaves nothing over, also after a restart', { timeout }, async () => {
    await server.restart();
    await server.services.catalog.recover();
    await server.maintain();
    await server.stop();
    assert.deepEqual(await storeEngineDifferences(server.dataDirectory), []);
    assert.deepEqual(await leftovers(server.dataDirectory, await externalSystems()), []);
    await server.restart();
  });
});
