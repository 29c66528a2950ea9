// The suites of the engine port on ClickHouse: on one server, on two with a part of the rows each, and on two with all rows each.
import { suitesOnEngine } from '../engine_under_test.ts';
import { missingRing } from './ring/ring.ts';

if (missingRing === false) {
  const suites = ['changes', 'statements', 'rows_together', 'checksums'];
  const urlOf = (name: string) => new URL(`../../conformance/engine/${name}.test.ts`, import.meta.url);
  for (const kind of ['oneServer', 'shards', 'copies'] as const) suitesOnEngine(kind, suites.map(urlOf));
  suitesOnEngine('shards', [urlOf('backups')]);
} else console.log(`the suites of the engine port do not run on ClickHouse: ${missingRing}`);
