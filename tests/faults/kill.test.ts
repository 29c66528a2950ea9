// A sample of what `npm run soak` does by the hundred: the server's process and the engine's are killed with SIGKILL, at steps
// of changes and of tasks, and at random moments. SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { deadlineMs } from '../deadline.ts';
import { killAtInstants, whatIsLeft } from '../soak/instants.ts';
import { killRandomly } from '../soak/kills.ts';
import { describeStep, killAtStep, randomStep } from '../soak/steps.ts';
import { Random, seedFrom } from './random.ts';
import { scenarios } from './scenarios.ts';
import { ServerProcess } from './server_process.ts';
import { leaveSurroundings } from './surroundings.ts';
import { ofSchedules, taskScenarios } from './task_scenarios.ts';

const stepsSampled = 8;
const roundsSampled = 5;
const instantsSampled = 8;
const seed = seedFrom('SOAK_SEED');
const tasks = [...scenarios.filter(({ isTask }) => isTask), ...taskScenarios, ...ofSchedules];

describe('a process that is killed', () => {
  after(leaveSurroundings);

  test('at a step of a change, and at one of each kind of task', { timeout: deadlineMs(180_000) }, async (t) => {
    t.diagnostic(`SOAK_SEED=${seed}`);
    const random = new Random(seed);
    const server = await ServerProcess.onEmptyDirectory();
    const steps = Array.from({ length: stepsSampled }, () => randomStep(random, scenarios));
    steps.push(...tasks.map((scenario) => randomStep(random, [scenario])));
    try {
      for (const [i, step] of steps.entries()) {
        const struck = await killAtStep(server, step, `s${i}`);
        t.diagnostic(`${describeStep(step)}: ${struck ? server.struck : 'not reached'}`);
      }
      assert.deepEqual(await whatIsLeft(server), []);
      await server.remove();
    } finally {
      await server.kill();
    }
  });

  test('at an instant, with tasks under way', { timeout: deadlineMs(120_000) }, async (t) => {
    const report = await killAtInstants({ seed, instants: instantsSampled, scenarios: tasks });
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
  });

  test('at a random moment', { timeout: deadlineMs(120_000) }, async (t) => {
    const report = await killRandomly({ seed, rounds: roundsSampled, workers: 3, tablesEach: 3 });
    t.diagnostic(JSON.stringify(report));
    assert.deepEqual(report.problems, []);
  });
});
