// The suite of loads of the engine port on ClickHouse: on one server, on two with a part of the rows each, and on two with all rows each.
import { suitesOnEngine } from '../../engine_under_test.ts';
import { missingRing } from '../ring/ring.ts';

if (missingRing === false) {
  const suite = new URL('../../../conformance/engine/load.test.ts', import.meta.url);
  for (const kind of ['oneServer', 'shards', 'copies'] as const) suitesOnEngine(kind, [suite]);
} else console.log(`the suite of loads does not run on ClickHouse: ${missingRing}`);
