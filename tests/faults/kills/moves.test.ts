// The server is killed at steps of a move of a catalog, before statements of the store and before and after calls of the engines: when it starts
// again the move continues, and no row is lost or doubled. SOAK_SEED replays a run; TEST_BUDGET=all kills it at every step.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs, eventually } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { checkDataDirectory } from '../../soak/instants.ts';
import { closeExternalSystems } from '../injection/external_systems.ts';
import type { Fault } from '../injection/fault_plan.ts';
import { ServerProcess } from '../injection/server_process.ts';
import { MovedCatalog, movedPath } from '../scenarios/moved_catalog.ts';

const seed = seedFrom('SOAK_SEED');
const timeout = deadlineMs(runsAll ? 3_000_000 : 120_000);
const killsMin = 3;
const partSeconds = 6;
/** A move has about as many; later ones are not reached. */
const statements = 60;
const calls = 30;

const steps = (point: Fault['point'], count: number): Fault[] =>
  Array.from({ length: count }, (_, i) => ({ point, n: i + 1, isLasting: false }));

describe('a server that is killed while it moves a catalog', () => {
  after(closeExternalSystems);

  test('completes or undoes the move when it starts again', { timeout }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    const faults = [...steps('store', statements), ...steps('before', calls), ...steps('after', calls)];
    const server = await ServerProcess.onEmptyDirectory();
    const moved = new MovedCatalog();
    try {
      await moved.create(server.api);
      for (const fault of new Budget(partSeconds).sample(faults, new Random(seed), (taken) => taken >= killsMin)) {
        await moved.prepare(server.api);
        await server.arm('server', fault);
        const answer = await moved.move(server.api);
        if (answer.status === 202) await moved.endOrDeath(server);
        else await server.waitForExit(deadlineMs(5_000));
        if (server.runs) await server.disarm().catch(() => undefined);
        if (!server.runs) {
          await server.noOrphans();
          await server.start();
        }
        const state = await moved.end(server.api, answer);
        const what = `killed at ${fault.point} ${fault.n} (${server.struck?.slice(0, 80)}): ${state}`;
        t.diagnostic(what);
        await moved.verify(server.api, state === 'succeeded', what);
      }
      await server.maintain();
      assert.deepEqual(await checkDataDirectory(server), []);
      await server.remove();
    } finally {
      await server.kill();
    }
  });

  test('and its cancellation had come too late succeeds when it starts again', { timeout }, async () => {
    const server = await ServerProcess.onEmptyDirectory();
    const moved = new MovedCatalog();
    try {
      await moved.create(server.api);
      await moved.prepare(server.api);
      const { warehouse } = (await server.api.get(movedPath)).result;
      const answer = await moved.move(server.api);
      await eventually('it has switched', async () => {
        const { status, result } = await server.api.get(movedPath);
        return status === 200 && result.warehouse !== warehouse;
      });
      await server.api.post(`/api/v2/tasks/${answer.result.taskId}/cancel`);
      await server.kill();
      await server.start();
      assert.equal(await moved.end(server.api, answer), 'succeeded');
      await moved.verify(server.api, true, 'cancelled after its switch, and killed');
      await server.remove();
    } finally {
      await server.kill();
    }
  });
});
