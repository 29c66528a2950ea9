// Every change, with the n-th statement of the store or the n-th call of the engine failing, for every n (here, for a sample by
// seed). After each, the change is complete or absent; acknowledged changes exist; and it can be repeated.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TaskRecord } from '../../src/tasks/task.ts';
import { Budget, runsAll } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { Random, seedFrom } from '../random.ts';
import type { Answer } from './injection/api.ts';
import { closeExternalSystems, externalSystems } from './injection/external_systems.ts';
import { type Fault, noFault, type Sweep } from './injection/fault_plan.ts';
import { FaultyServer } from './injection/faulty_server.ts';
import { storeEngineDifferences } from './scenarios/agreement.ts';
import { applyScenario, checkAtomicity, endOfTask } from './scenarios/atomicity.ts';
import { leftovers } from './scenarios/leftovers.ts';
import { type Scenario, scenarios } from './scenarios/scenarios.ts';
import { taskScenarios } from './scenarios/task_scenarios.ts';

const selectedScenarios = process.env.FAULTS_ONLY;
const taskWaitMs = deadlineMs(20_000);

const sweeps: readonly Sweep[] = [
  { point: 'store', isLasting: false },
  { point: 'store', isLasting: true },
  { point: 'before', isLasting: false },
  { point: 'after', isLasting: false },
  { point: 'after', isLasting: true },
  { point: 'asked', isLasting: false },
  { point: 'answered', isLasting: false },
  { point: 'asked', isLasting: true },
];
/** With all steps, a server has thousands of tasks in the end, which are read after each step. */
const timeout = deadlineMs(runsAll ? 1_500_000 : 120_000);
const seed = seedFrom('FAULTS_SEED');
const all = [...scenarios, ...taskScenarios].map((scenario, i) => ({ scenario, random: new Random(seed).fork(i) }));
const chosen = all.filter(({ scenario }) => !selectedScenarios || scenario.name.includes(selectedScenarios));
const budget = new Budget(18, chosen.length);

let ids = 0;

describe('an interrupted change', () => {
  let server: FaultyServer;
  before(async () => {
    server = await FaultyServer.start();
  });
  after(async () => {
    await server.stop();
    await server.remove();
    await closeExternalSystems();
  });

  for (const { scenario, random } of chosen) {
    test(scenario.name, { timeout }, async (t) => {
      t.diagnostic(`FAULTS_SEED=${seed}`);
      await runWithFault(server, scenario, noFault);
      const faults = server.plan.faults(sweeps);
      let reachedSteps = 0;
      for (const fault of budget.sample(faults, random, () => reachedSteps > 0))
        if ((await runWithFault(server, scenario, fault)) === 'struck') reachedSteps++;
      t.diagnostic(`${reachedSteps} of ${faults.length} faults`);
      assert(reachedSteps > 0, 'no step of the change was struck');
    });
  }

  test('leaves store and engine consistent, also after a restart', async () => {
    await server.restart();
    await server.services.catalog.recover();
    await server.api.endOfTasks(taskWaitMs);
    await server.stop();
    assert.deepEqual(await storeEngineDifferences(server.dataDirectory), []);
    await server.restart();
    await server.maintain();
    await server.stop();
    assert.deepEqual(await leftovers(server.dataDirectory, await externalSystems()), []);
    await server.restart();
  });
});

async function runWithFault(server: FaultyServer, scenario: Scenario, fault: Fault): Promise<'unharmed' | 'struck'> {
  const id = String(++ids);
  await scenario.prepare(server.api, id);
  server.plan.arm(fault);
  const answer = await applyScenario(server, scenario, id);
  if (answer.status === 202 && fault.isLasting) await new Promise((resolve) => setTimeout(resolve, 100));
  if (fault.isLasting) server.plan.disarm();
  const task = answer.status === 202 ? await endOf(server, answer) : undefined;
  const interruption = server.plan.disarm();
  await server.api.endOfTasks(taskWaitMs);
  await server.services.catalog.recover();
  await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck: interruption, fault });
  return interruption === undefined ? 'unharmed' : 'struck';
}

async function endOf({ plan, services }: FaultyServer, { result }: Answer): Promise<TaskRecord> {
  const task = await plan.withoutCounting(() => services.tasks.wait(String(result.taskId), taskWaitMs));
  assert(task, 'an accepted task is lost');
  assert(['succeeded', 'failed', 'cancelled'].includes(task.state), `a task does not end: ${JSON.stringify(task)}`);
  return task;
}
