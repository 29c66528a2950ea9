// The suites of stores, and of what servers keep in one, on PostgreSQL.
import { suitesOn } from '../stores.ts';

suitesOn(
  'postgresql',
  ['store', 'caller_limits', 'stored_results'].map((suite) => new URL(`./${suite}.test.ts`, import.meta.url)),
);
