// The suites of the catalog with the first attempt of every transaction rolled back: a transaction has no effects but its own.
import { suitesOn } from '../stores.ts';

const suites = ['catalog', 'rewriting', 'model'] as const;
suitesOn(
  'sqliteWithConflicts',
  suites.map((suite) => new URL(`./${suite}.test.ts`, import.meta.url)),
);
