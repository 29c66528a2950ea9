// Every change, with the n-th statement of the store or the n-th call of the engine failing, for every n until nothing fails
// any more. After each, the change is there whole or not at all; what was acknowledged is there; it can be made again.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TaskRecord } from '../../src/tasks/task.ts';
import { disagreements } from './agreement.ts';
import { type Answer, isAcknowledged } from './api.ts';
import { differences, type Expected } from './expectation.ts';
import type { Fault, FaultPoint } from './fault_plan.ts';
import { FaultyServer } from './faulty_server.ts';
import { type Scenario, scenarios } from './scenarios.ts';

const only = process.env.FAULTS_ONLY;
const stepsMax = 400;
const taskWaitMs = 20_000;

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

let ids = 0;

describe('a change that is broken off', () => {
  let server: FaultyServer;
  before(async () => {
    server = await FaultyServer.start();
  });
  after(async () => {
    await server.stop();
    await server.remove();
  });

  for (const scenario of scenarios.filter(({ name }) => !only || name.includes(only))) {
    test(scenario.name, { timeout: 120_000 }, async (t) => {
      let faults = 0;
      for (const sweep of sweeps) {
        for (let n = 1; ; n++) {
          assert(n < stepsMax, 'the change comes to no end');
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
  });
});

async function breakOff(server: FaultyServer, scenario: Scenario, fault: Fault): Promise<'unharmed' | 'struck'> {
  const id = String(++ids);
  await scenario.prepare(server.api, id);
  server.plan.arm(fault);
  const answer = await server.api.send(scenario.request(id));
  if (answer.status === 202 && fault.lasting) await new Promise((resolve) => setTimeout(resolve, 100));
  if (fault.lasting) server.plan.disarm();
  const task = answer.status === 202 ? await endOf(server, answer) : undefined;
  const struck = server.plan.disarm();
  await server.api.endOfTasks(taskWaitMs);
  await server.services.catalog.recover();

  const told = `${fault.lasting ? 'from' : 'at'} ${fault.point} ${fault.n} (${struck?.replace(/"/g, '').slice(0, 90)}), answer ${JSON.stringify(answer)}, task ${JSON.stringify(task)}`;
  if (struck === undefined && !scenario.refusal) assert(isDone(answer, task), told);
  if (scenario.refusal && answer.status < 500) assert.equal(answer.code, scenario.refusal, told);
  const done = await settled(server, scenario, id, isDone(answer, task), answer.status < 500 && !task, told);
  await makeAgain(server, scenario, id, done, told);
  return struck === undefined ? 'unharmed' : 'struck';
}

const isDone = (answer: Answer, task: TaskRecord | undefined) =>
  task ? task.state === 'succeeded' : isAcknowledged(answer);

async function endOf({ plan, services }: FaultyServer, { result }: Answer): Promise<TaskRecord> {
  const task = await plan.spare(() => services.tasks.wait(String(result.taskId), taskWaitMs));
  assert(task, 'an accepted task is lost');
  assert(['succeeded', 'failed', 'cancelled'].includes(task.state), `a task does not end: ${JSON.stringify(task)}`);
  return task;
}

/** Whether the change was made; throws where it was made by halves, or acknowledged and not made. */
async function settled(
  server: FaultyServer,
  scenario: Scenario,
  id: string,
  acknowledged: boolean,
  refused: boolean,
  told: string,
): Promise<boolean> {
  const fromAfter = await differences(server, scenario.after(id));
  if (acknowledged || fromAfter.length === 0) {
    assert.deepEqual(fromAfter, [], `acknowledged, and not so: ${told}`);
    if (acknowledged || !refused) return true;
  }
  const fromBefore = await differences(server, scenario.before(id));
  assert.deepEqual(fromBefore, [], `neither as before nor as after (${fromAfter.join('; ')}): ${told}`);
  return false;
}

/** Nothing may stand in the way of the same request now; names are free again. */
async function makeAgain(server: FaultyServer, scenario: Scenario, id: string, done: boolean, told: string) {
  const answer = await server.api.send(scenario.request(id));
  if (answer.status === 202) await endOf(server, answer);
  if (scenario.refusal) return assert.equal(answer.code, scenario.refusal, told);
  if (done && scenario.again && scenario.again !== 'more') {
    return assert.equal(answer.code, scenario.again, `a second time: ${told}`);
  }
  assert(isAcknowledged(answer), `cannot be made again: ${JSON.stringify(answer)}: ${told}`);
  if (done && scenario.again === 'more') return;
  const expected: Expected = scenario.after(id);
  assert.deepEqual(await differences(server, expected), [], `made again, and not so: ${told}`);
}
