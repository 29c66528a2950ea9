// A sample of the faults at steps of changes; `npm run soak -- --only "steps of a cluster"` does more of them, with `--all` each at each step.
// SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { missingCluster } from './cluster_world.ts';
import { allClusterSteps, strikeAtSteps } from './steps.ts';

const seed = seedFrom('SOAK_SEED');
const stepsMin = 2;
const seconds = 3;

test('a change is done once, whatever fails at one of its steps', {
  timeout: deadlineMs(180_000),
  skip: missingCluster('unreplicated'),
}, async (t) => {
  t.diagnostic(`SOAK_SEED=${seed}`);
  const random = new Random(seed);
  const all = allClusterSteps('unreplicated');
  const sample = new Budget(seconds).sample(all, random, (count) => count >= stepsMin);
  // A load continues after the response to its request.
  const ofTask = all.filter(
    ({ scenario, fault: { point, n } }) => scenario.name === 'load' && point === 'before' && n === 1,
  );
  function* steps() {
    yield random.pick(ofTask);
    yield* sample;
  }
  const log = (text: string) => t.diagnostic(text);
  const report = await strikeAtSteps(steps(), { kind: 'unreplicated', random: random.fork(1), log });
  t.diagnostic(`${report.struck} of ${report.tried} steps were reached`);
  assert.deepEqual(report.problems, []);
  assert.ok(report.struck > 0, 'a load calls the engine');
});
