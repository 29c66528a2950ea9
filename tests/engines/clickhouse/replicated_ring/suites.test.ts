// Suites of the engine port on three replicas of the oldest version that warehouses may have. All of them, also on shards of replicas, run by hand
// (on_oldest_version.ts).
import { after, describe } from 'node:test';
import { suitesOnEngine } from '../../engine_under_test.ts';
import { closeReplicatedEngine } from './replicated_engine.ts';
import { missingOldestVersion } from './replicated_ring.ts';

describe('the suites of the engine port on replicas of 24.8', { skip: missingOldestVersion }, () => {
  if (missingOldestVersion !== false) return;
  after(closeReplicatedEngine);
  const suites = ['changes', 'statements', 'rows_together', 'checksums', 'backups'];
  suitesOnEngine(
    'replicas',
    suites.map((name) => new URL(`../../../conformance/engine/${name}.test.ts`, import.meta.url)),
  );
});
