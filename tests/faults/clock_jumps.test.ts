// Every kind of task, with the server's clock set forward or back by most of an hour at a random moment while it runs: the result
// is unaffected, and it is applied once. FAULTS_SEED replays a run.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../deadline.ts';
import { Random, seedFrom } from '../random.ts';
import { checkDataDirectory } from '../soak/instants.ts';
import { closeExternalSystems } from './injection/external_systems.ts';
import { ServerProcess } from './injection/server_process.ts';
import { applyScenario, checkAtomicity, endOfTask } from './scenarios/atomicity.ts';
import type { Scenario } from './scenarios/scenario_parts.ts';
import { scenarios } from './scenarios/scenarios.ts';
import { scheduleScenarios, taskScenarios } from './scenarios/task_scenarios.ts';

/** Less than the lifetime of a link: running work may continue. Much more than leases, delays and heartbeats. */
const jumpMs = 50 * 60_000;
const jumpsWithinMs = [5, 30, 150];
const tasksEndMs = deadlineMs(60_000);
const seed = seedFrom('FAULTS_SEED');
const tasks = [...scenarios.filter(({ isTask }) => isTask), ...taskScenarios, ...scheduleScenarios];

after(closeExternalSystems);

test('clocks that jump', { timeout: deadlineMs(120_000) }, async (t) => {
  t.diagnostic(`FAULTS_SEED=${seed}`);
  const random = new Random(seed);
  const server = await ServerProcess.onEmptyDirectory();
  let aheadMs = 0;
  const runWithClockJump = async (scenario: Scenario, id: string) => {
    await scenario.prepare(server.api, id);
    const making = applyScenario(server, scenario, id);
    await pause(random.below(random.pick(jumpsWithinMs)));
    aheadMs = aheadMs === 0 ? random.pick([jumpMs, -jumpMs]) : 0;
    await server.jump(aheadMs);
    const answer = await making;
    const ended = await server.api.endOfTasks(tasksEndMs);
    await server.maintain();
    const task = answer.status === 202 ? ended.find(({ taskId }) => taskId === answer.result.taskId) : undefined;
    const fault = { point: 'store', n: 0, isLasting: false } as const;
    await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck: undefined, fault });
  };
  try {
    for (const [i, scenario] of tasks.entries()) {
      const aheadBefore = aheadMs;
      const startMs = performance.now();
      await runWithClockJump(scenario, `c${i}`).catch((error: Error) => {
        error.message = `${scenario.name}, clock set by ${aheadMs - aheadBefore} ms: ${error.message}`;
        throw error;
      });
      t.diagnostic(`${scenario.name}: ${aheadMs - aheadBefore} ms, ${Math.round(performance.now() - startMs)} ms`);
    }
    await server.jump(0);
    assert.deepEqual(await checkDataDirectory(server), []);
    await server.remove();
  } finally {
    await server.kill();
  }
});
