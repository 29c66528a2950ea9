// A sample of what `npm run soak -- --only cluster` does hundreds of times: faults of an installation of two servers, a store with its standby and
// three nodes, at random instants under constant reads and writes. SOAK_SEED replays a run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Budget, runsAll } from '../../budget.ts';
import { deadlineMs } from '../../deadline.ts';
import { seedFrom } from '../../random.ts';
import { missingCluster } from './cluster_world.ts';
import { missingNamespaces } from './network.ts';
import { runRandomFaults } from './random_faults.ts';

const seed = seedFrom('SOAK_SEED');
const timeout = deadlineMs(runsAll ? 3_600_000 : 180_000);
const faultsMin = 1;
const faultsMax = 200;
const seconds = 3;

test('nothing acknowledged is lost or done twice under faults of a cluster, and what fails works again afterwards', {
  timeout,
  skip: missingCluster('unreplicated') || missingNamespaces,
}, async (t) => {
  t.diagnostic(`SOAK_SEED=${seed}`);
  const hasTime = new Budget(seconds).part();
  const log = (text: string) => t.diagnostic(text);
  const report = await runRandomFaults({ seed, faults: faultsMax, atLeast: faultsMin, hasTime, log });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.problems, []);
});
