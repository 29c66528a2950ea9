// A sample of what `npm run soak` does hundreds of times: the processes of the server and the engine are killed with SIGKILL, at steps
// of changes and of tasks, and at random moments. SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { checkDataDirectory, killAtInstants } from '../../soak/instants.ts';
import { killRandomly } from '../../soak/kills.ts';
import { describeStep, killAtStep, randomStep } from '../../soak/steps.ts';
import { closeExternalSystems } from '../injection/external_systems.ts';
import { ServerProcess } from '../injection/server_process.ts';
import { scenarios } from '../scenarios/scenarios.ts';
import { scheduleScenarios, taskScenarios } from '../scenarios/task_scenarios.ts';

const timeout = deadlineMs(runsAll ? 1_500_000 : 120_000);
const seed = seedFrom('SOAK_SEED');
const tasks = [...scenarios.filter(({ isTask }) => isTask), ...taskScenarios, ...scheduleScenarios];

const stepsMin = 6;
const instantsMin = 2;
const roundsMin = 2;
const stepsMax = 200;
/** The time of each part: everything that begins in it is also verified. */
const partSeconds = 5;

describe('a killed process', () => {
  after(closeExternalSystems);

  test('at a step of a change or of a task', { timeout }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    const random = new Random(seed);
    const server = await ServerProcess.onEmptyDirectory();
    // Half of them are tasks, of which each kind has many steps.
    const steps = Array.from({ length: stepsMax }, (_, i) => randomStep(random, i % 2 === 0 ? scenarios : tasks));
    try {
      let i = 0;
      for (const step of new Budget(partSeconds).sample(steps, random, (sampledCount) => sampledCount >= stepsMin)) {
        const struck = await killAtStep(server, step, `s${i++}`);
        t.diagnostic(`${describeStep(step)}: ${struck ? server.struck : 'not reached'}`);
      }
      assert.deepEqual(await checkDataDirectory(server), []);
      await server.remove();
    } finally {
      await server.kill();
    }
  });

  test('at an instant, with tasks under way', { timeout }, async (t) => {
    const hasTime = new Budget(partSeconds).part();
    const report = await killAtInstants({ seed, instants: stepsMax, atLeast: instantsMin, hasTime, scenarios: tasks });
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
  });

  test('at a random moment', { timeout }, async (t) => {
    const hasTime = new Budget(partSeconds).part();
    const report = await killRandomly({
      seed,
      rounds: stepsMax,
      atLeast: roundsMin,
      hasTime,
      workers: 3,
      tablesEach: 3,
    });
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
  });
});
