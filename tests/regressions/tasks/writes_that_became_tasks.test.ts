// A statement without an idempotency key that became a task while it ran had no identity: after the death of the server or of the
// engine the task ended with TASK_INTERRUPTED, although running it again was safe. The engine now remembers it by its task.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { deadlineMs } from '../../deadline.ts';
import { pathOf } from '../../faults/injection/api.ts';
import { closeExternalSystems } from '../../faults/injection/external_systems.ts';
import type { Fault } from '../../faults/injection/fault_plan.ts';
import type { Victim } from '../../faults/injection/server_entry.ts';
import { ServerProcess } from '../../faults/injection/server_process.ts';
import { waitUntilRestarted } from '../../soak/steps.ts';

const query = pathOf('databases', 'd', 'query');
const slowInsert = (table: string) =>
  `INSERT INTO ${table} SELECT 1 WHERE (SELECT sum(range % 7) FROM range(60000000)) > 0`;

after(closeExternalSystems);

test('a write that became a task is applied once, whichever process dies', {
  timeout: deadlineMs(120_000),
}, async (t) => {
  const server = await ServerProcess.onEmptyDirectory();
  t.after(async () => {
    await server.kill();
    await server.remove();
  });
  assert.equal((await server.api.post(pathOf('databases'), { name: 'd' })).status, 201);
  for (const victim of ['server', 'engine'] as const satisfies Victim[])
    for (const moment of ['while it runs', 'after its commit'] as const)
      await t.test(`the ${victim} dies ${moment}`, async () => {
        const table = `t_${victim}_${moment.replaceAll(' ', '_')}`;
        const columns = [{ name: 'n', type: 'INT' }];
        assert.equal((await server.api.post(pathOf('databases', 'd', 'tables'), { name: table, columns })).status, 201);
        const committed: Fault = { point: 'after', n: 1, isLasting: false, callPrefixes: ['execute'] };
        if (moment === 'after its commit') await server.arm(victim, committed);
        const answer = await server.api.post(query, { sql: slowInsert(table), waitSeconds: 0.05 });
        assert.deepEqual([answer.status, answer.result.state], [202, 'running']);
        const { taskId } = answer.result as { readonly taskId: string };
        if (moment === 'while it runs') server.strike(victim);
        if (victim === 'server') {
          await server.waitForExit(deadlineMs(20_000));
          assert.equal(server.runs, false);
          await server.start();
        }
        await waitUntilRestarted(server, 0);
        const task = (await server.api.get(`${pathOf('tasks', taskId)}?waitSeconds=30`)).result;
        assert.deepEqual([task.state, task.error], ['succeeded', null]);
        assert.equal((task.result as { rowCount: number }).rowCount, 1);
        const { rows } = (await server.api.post(query, { sql: `SELECT count(*) FROM ${table}` })).result;
        assert.deepEqual(rows, [[1]]);
      });
});
