// The suites of tasks on PostgreSQL.
import { suitesOn } from '../stores.ts';

const suites = ['tasks', 'queue', 'leases', 'waits_of_servers', 'webhooks_of_owners'] as const;
suitesOn(
  'postgresql',
  suites.map((suite) => new URL(`./${suite}.test.ts`, import.meta.url)),
);
