// A sample of what `npm run soak -- --only servers` does hundreds of times: two servers on one store are killed at random moments, while
// data in the warehouses of both is changed through either. SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget, runsAll } from '../budget.ts';
import { deadlineMs } from '../deadline.ts';
import { missingPostgresql } from '../postgresql.ts';
import { seedFrom } from '../random.ts';
import { killServersRandomly } from '../soak/kills_of_servers.ts';

const seed = seedFrom('SOAK_SEED');
const timeout = deadlineMs(runsAll ? 1_500_000 : 120_000);
const roundsMin = 2;
const roundsMax = 200;
const seconds = 8;

test('nothing acknowledged is lost, undone or done twice when servers are killed', {
  timeout,
  skip: missingPostgresql,
}, async (t) => {
  t.diagnostic(`SOAK_SEED=${seed}`);
  const hasTime = new Budget(seconds).part();
  const report = await killServersRandomly({
    seed,
    rounds: roundsMax,
    atLeast: roundsMin,
    hasTime,
    workers: 4,
    tablesEach: 2,
  });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.problems, []);
});
