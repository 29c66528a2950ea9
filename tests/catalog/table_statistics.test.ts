// The statistics of tables are refreshed by a timer, of whose failures nobody hears: a store that fails must not end the process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StatisticsRefresher } from '../../src/catalog/table_statistics.ts';

type Options = ConstructorParameters<typeof StatisticsRefresher>[0];

test('a refresh that cannot read the store is reported, and the next one tries again', async () => {
  const observed: unknown[] = [];
  let reads = 0;
  const takeRelocatedTables = async () => {
    if (++reads === 1) throw new Error('the store fails');
    return [];
  };
  const parts: Pick<Options, 'observe'> & { catalog: unknown; warehouses: unknown } = {
    catalog: { takeRelocatedTables },
    warehouses: { allRunning: async () => [] },
    observe: (observation) => observed.push(observation),
  };
  const refresher = new StatisticsRefresher(parts as Options);
  await refresher.refresh();
  await refresher.refresh();
  assert.equal(reads, 2);
  assert.equal(observed.length, 1);
});
