// Every change, with the n-th statement of the store or the n-th call of the engine failing, for every n (here, a part of them that a
// seed chooses) until nothing fails any more. After each, the change is there whole or not at all; what was acknowledged is there; it can be made again.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TaskRecord } from '../../src/tasks/task.ts';
import { deadlineMs } from '../deadline.ts';
import { disagreements } from './agreement.ts';
import type { Answer } from './api.ts';
import type { Fault, FaultPoint } from './fault_plan.ts';
import { FaultyServer } from './faulty_server.ts';
import { leftovers } from './leftovers.ts';
import { Random, seedFrom } from './random.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { leaveSurroundings, surroundings } from './surroundings.ts';
import { taskScenarios } from './task_scenarios.ts';
import { checkWhole, endOfTask, make } from './whole.ts';

const only = process.env.FAULTS_ONLY;
const stepsMax = 400;
const taskWaitMs = deadlineMs(20_000);

interface Sweep {
  readonly point: FaultPoint;
  readonly lasting: boolean;
}
const sweeps: readonly Sweep[] = [
  { point: 'store', lasting: false },
  { point: 'store', lasting: true },
  { point: 'before', lasting: false },
  { point: 'after', lasting: false },
  { point: 'after', lasting: true },
];
/** Of those that move a hundred thousand rows each time; FAULTS_ALL=1 makes them all. */
const sweepsOfLarge = sweeps.filter(({ point, lasting }) => (point === 'store') !== lasting);
const all = process.env.FAULTS_ALL === '1';
/** With all steps, a server has thousands of tasks in the end, which each step looks through. */
const timeout = deadlineMs(all ? 900_000 : 120_000);
/** Of those that are done by a task, which have many steps: so many of each sweep, chosen by a seed; FAULTS_ALL=1 makes them all. */
const stepsOfTaskMax = 4;
const outsideSweeps: readonly Sweep[] = [
  { point: 'asked', lasting: false },
  { point: 'answered', lasting: false },
  { point: 'asked', lasting: true },
];
const seed = seedFrom('FAULTS_SEED');
/** Every third step, of large ones every fourth, beginning where the seed says; FAULTS_ALL=1 takes each. */
const stride = ({ isLarge }: Scenario): number => (all ? 1 : isLarge ? 4 : 3);
const first = (scenario: Scenario): number => 1 + (seed % stride(scenario));

let ids = 0;

describe('a change that is broken off', () => {
  let server: FaultyServer;
  before(async () => {
    server = await FaultyServer.start();
  });
  after(async () => {
    await server.stop();
    await server.remove();
    await leaveSurroundings();
  });

  for (const scenario of scenarios.filter(({ name }) => !only || name.includes(only))) {
    test(scenario.name, { timeout }, async (t) => {
      let faults = 0;
      for (const sweep of scenario.isLarge && !all ? sweepsOfLarge : sweeps) {
        for (let n = first(scenario); ; n += stride(scenario)) {
          assert(n < stepsMax, 'the change comes to no end');
          if ((await breakOff(server, scenario, { ...sweep, n })) === 'unharmed') break;
          faults++;
        }
      }
      t.diagnostic(`${faults} faults, FAULTS_SEED=${seed}`);
    });
  }

  for (const scenario of taskScenarios.filter(({ name }) => !only || name.includes(only))) {
    test(`by a task: ${scenario.name}`, { timeout }, async (t) => {
      t.diagnostic(`FAULTS_SEED=${seed}`);
      let faults = 0;
      for (const [i, sweep] of [...sweeps, ...(scenario.reaches ? outsideSweeps : [])].entries()) {
        for (const n of stepsOfTask(i, sweep.point)) {
          if ((await breakOff(server, scenario, { ...sweep, n })) === 'unharmed') break;
          faults++;
        }
      }
      t.diagnostic(`${faults} faults`);
    });
  }

  test('leaves store and engine in agreement, after a restart too', async () => {
    await server.restart();
    await server.services.catalog.recover();
    await server.api.endOfTasks(taskWaitMs);
    await server.stop();
    assert.deepEqual(await disagreements(server.dataDirectory), []);
    await server.restart();
    await server.maintain();
    await server.stop();
    assert.deepEqual(await leftovers(server.dataDirectory, await surroundings()), []);
    await server.restart();
  });
});

/** In their order; of the statements of the store, of which there are many, some left out. */
function* stepsOfTask(fork: number, point: FaultPoint): Generator<number> {
  const random = new Random(seed).fork(fork);
  const isEach = all || point !== 'store';
  for (let i = 0, n = 0; all ? n < stepsMax : i < stepsOfTaskMax; i++) {
    n += isEach ? 1 : 1 + random.below(2 + 3 * i);
    yield n;
  }
}

async function breakOff(server: FaultyServer, scenario: Scenario, fault: Fault): Promise<'unharmed' | 'struck'> {
  const id = String(++ids);
  await scenario.prepare(server.api, id);
  server.plan.arm(fault);
  const answer = await make(server, scenario, id);
  if (answer.status === 202 && fault.lasting) await new Promise((resolve) => setTimeout(resolve, 100));
  if (fault.lasting) server.plan.disarm();
  const task = answer.status === 202 ? await endOf(server, answer) : undefined;
  const struck = server.plan.disarm();
  await server.api.endOfTasks(taskWaitMs);
  await server.services.catalog.recover();
  await checkWhole(server, scenario, id, { answer, task: endOfTask(task), struck, fault });
  return struck === undefined ? 'unharmed' : 'struck';
}

async function endOf({ plan, services }: FaultyServer, { result }: Answer): Promise<TaskRecord> {
  const task = await plan.spare(() => services.tasks.wait(String(result.taskId), taskWaitMs));
  assert(task, 'an accepted task is lost');
  assert(['succeeded', 'failed', 'cancelled'].includes(task.state), `a task does not end: ${JSON.stringify(task)}`);
  return task;
}
