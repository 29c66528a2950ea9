// The suites of the engine port and the exact values on the cluster that CLICKHOUSE_TEST_URLS names (CONTRIBUTING.md).
import { after, describe } from 'node:test';
import { suitesOnEngine } from '../../engine_under_test.ts';
import { missingGivenCluster, removeTestedCatalogs } from './given_cluster.ts';

describe('the suites of the engine port on a given cluster', { skip: missingGivenCluster }, () => {
  after(removeTestedCatalogs);
  const suites = ['changes', 'statements', 'rows_together', 'checksums', 'backups', 'load'];
  suitesOnEngine('given', [
    ...suites.map((name) => new URL(`../../../conformance/engine/${name}.test.ts`, import.meta.url)),
    new URL('../values.test.ts', import.meta.url),
  ]);
});
