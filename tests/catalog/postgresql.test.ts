// The suites of the catalog on PostgreSQL.
import { suitesOn } from '../stores.ts';

const suites = ['catalog', 'rewriting', 'model', 'two_servers'] as const;
suitesOn(
  'postgresql',
  suites.map((suite) => new URL(`./${suite}.test.ts`, import.meta.url)),
);
