// A sample of what `npm run soak -- --only "steps of decommissions"` does at each step: something is killed, frozen or restarted there while clients read
// and write. TEST_BUDGET=all takes each step; SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { Random, seedFrom } from '../../random.ts';
import { missingCluster } from './cluster_world.ts';
import { allDecommissionSteps, strikeDecommissions } from './decommission_steps.ts';

const seed = seedFrom('SOAK_SEED');

test('a decommission ends or is cancelled, whatever fails at one of its steps', {
  timeout: deadlineMs(runsAll ? 4 * 3_600_000 : 180_000),
  skip: missingCluster('replicated'),
}, async (t) => {
  t.diagnostic(`SOAK_SEED=${seed}`);
  const random = new Random(seed);
  let reached = 0;
  const steps = new Budget(1).sample(allDecommissionSteps, random, () => reached > 0);
  const report = await strikeDecommissions(steps, {
    random: random.fork(1),
    log: (text) => t.diagnostic(text),
    struck: () => void reached++,
  });
  t.diagnostic(`${report.struck} of ${report.tried} steps were reached`);
  assert.deepEqual(report.problems, []);
});
