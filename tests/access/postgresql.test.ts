// The suites that need a store but no server, of access, the feed of changes, the audit trail, idempotency keys, files and the history of
// statements, on PostgreSQL.
import { suitesOn } from '../stores.ts';

const suites = [
  './audit_chain',
  './audit_chains',
  './idempotency_keys',
  './secrets_in_stores',
  '../files/file_store',
  '../query/history_bytes',
  '../regressions/http/conditions_in_the_transaction',
  '../store/change_feed',
  '../store/rerun_transactions',
] as const;
suitesOn(
  'postgresql',
  suites.map((suite) => new URL(`${suite}.test.ts`, import.meta.url)),
);
