// Every kind of task, with the server's clock set forward or back by most of an hour at a random moment while it runs: the result
// is unaffected, and it is applied once. FAULTS_SEED replays a run.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../deadline.ts';
import { checkDataDirectory } from '../soak/instants.ts';
import { applyScenario, checkAtomicity, endOfTask } from './atomicity.ts';
import { closeExternalSystems } from './external_systems.ts';
import { Random, seedFrom } from './random.ts';
import type { Scenario } from './scenario_parts.ts';
import { scenarios } from './scenarios.ts';
import { ServerProcess } from './server_process.ts';
import { scheduleScenarios, taskScenarios } from './task_scenarios.ts';

/** Less than the lifetime of a link: running work may continue. Much more than leases, delays and heartbeats. */
const jumpMs = 50 * 60_000;
const jumpsWithinMs = [5, 30, 150];
const tasksEndMs = deadlineMs(60_000);
const seed = seedFrom('FAULTS_SEED');
const tasks = [...scenarios.filter(({ isTask }) => isTask), ...taskScenarios, ...scheduleScenarios];

after(closeExternalSystems);

test('clocks that jump', { timeout: deadlineMs(180_000) }, async (t) => {
  t.diagnostic(`FAULTS_SEED=${seed}`);
  const random = new Random(seed);
  const server = await ServerProcess.onEmptyDirectory();
  let aheadMs = 0;
  const jumped = async (scenario: Scenario, id: string) => {
    await scenario.prepare(server.api, id);
    const making = applyScenario(server, scenario, id);
    await pause(random.below(random.pick(jumpsWithinMs)));
    aheadMs = aheadMs === 0 ? random.pick([jumpMs, -jumpMs]) : 0;
    await server.jump(aheadMs);
    const answer = await making;
    const ended = await server.api.endOfTasks(tasksEndMs);
    await server.maintain();
    const task = answer.status === 202 ? ended.find(({ taskId }) => taskId === answer.result.taskId) : undefined;
    const fault = { point: 'store', n: 0, lasting: false } as const;
    await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck: undefined, fault });
  };
  try {
    for (const [i, scenario] of tasks.entries()) {
      const was = aheadMs;
      const began = performance.now();
      await jumped(scenario, `c${i}`).catch((error: Error) => {
        error.message = `${scenario.name}, clock set by ${aheadMs - was} ms: ${error.message}`;
        throw error;
      });
      t.diagnostic(`${scenario.name}: ${aheadMs - was} ms, ${Math.round(performance.now() - began)} ms`);
    }
    await server.jump(0);
    assert.deepEqual(await checkDataDirectory(server), []);
    await server.remove();
  } finally {
    await server.kill();
  }
});
