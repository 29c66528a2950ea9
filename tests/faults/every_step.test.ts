// Every change, with the n-th statement of the store or the n-th call of the engine failing, for every n (here, for a sample by
// seed). After each, the change is complete or absent; acknowledged changes exist; and it can be repeated.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TaskRecord } from '../../src/tasks/task.ts';
import { Budget, runsAll } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { storeEngineDifferences } from './agreement.ts';
import type { Answer } from './api.ts';
import { applyScenario, checkAtomicity, endOfTask } from './atomicity.ts';
import { closeExternalSystems, externalSystems } from './external_systems.ts';
import { type Fault, noFault, type Sweep } from './fault_plan.ts';
import { FaultyServer } from './faulty_server.ts';
import { leftovers } from './leftovers.ts';
import { Random, seedFrom } from './random.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { taskScenarios } from './task_scenarios.ts';

const only = process.env.FAULTS_ONLY;
const taskWaitMs = deadlineMs(20_000);

const sweeps: readonly Sweep[] = [
  { point: 'store', lasting: false },
  { point: 'store', lasting: true },
  { point: 'before', lasting: false },
  { point: 'after', lasting: false },
  { point: 'after', lasting: true },
  { point: 'asked', lasting: false },
  { point: 'answered', lasting: false },
  { point: 'asked', lasting: true },
];
/** With all steps, a server has thousands of tasks in the end, which are read after each step. */
const timeout = deadlineMs(runsAll ? 1_800_000 : 120_000);
const seed = seedFrom('FAULTS_SEED');
const all = [...scenarios, ...taskScenarios].map((scenario, i) => ({ scenario, random: new Random(seed).fork(i) }));
const chosen = all.filter(({ scenario }) => !only || scenario.name.includes(only));
const budget = new Budget(36, chosen.length);

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
      let struck = 0;
      for (const fault of budget.sample(faults, random, () => struck > 0))
        if ((await runWithFault(server, scenario, fault)) === 'struck') struck++;
      t.diagnostic(`${struck} of ${faults.length} faults`);
      assert(struck > 0, 'no step of the change was struck');
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
  if (answer.status === 202 && fault.lasting) await new Promise((resolve) => setTimeout(resolve, 100));
  if (fault.lasting) server.plan.disarm();
  const task = answer.status === 202 ? await endOf(server, answer) : undefined;
  const struck = server.plan.disarm();
  await server.api.endOfTasks(taskWaitMs);
  await server.services.catalog.recover();
  await checkAtomicity(server, scenario, id, { answer, task: endOfTask(task), struck, fault });
  return struck === undefined ? 'unharmed' : 'struck';
}

async function endOf({ plan, services }: FaultyServer, { result }: Answer): Promise<TaskRecord> {
  const task = await plan.spare(() => services.tasks.wait(String(result.taskId), taskWaitMs));
  assert(task, 'an accepted task is lost');
  assert(['succeeded', 'failed', 'cancelled'].includes(task.state), `a task does not end: ${JSON.stringify(task)}`);
  return task;
}
