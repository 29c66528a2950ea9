// A sample of what `npm run soak -- --only "faults of a cluster"` does at hundreds of instants, on nodes of 24.8 that replicate: faults, of ZooKeeper too, while
// nodes are decommissioned and return. SOAK_SEED replays a run.
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
const faultsMax = 200;

test('nothing acknowledged is lost or done twice under faults of replicas and of ZooKeeper', {
  timeout,
  skip: missingCluster('replicated') || missingNamespaces,
}, async (t) => {
  t.diagnostic(`SOAK_SEED=${seed}`);
  const hasTime = new Budget(1).part();
  const log = (text: string) => t.diagnostic(text);
  const report = await runRandomFaults({ seed, kind: 'replicated', faults: faultsMax, atLeast: 1, hasTime, log });
  t.diagnostic(JSON.stringify(report));
  assert.deepEqual(report.problems, []);
});
