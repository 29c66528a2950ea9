// Every endpoint with a valid call, on a store on PostgreSQL and with DuckDB.
import { describe, test } from 'node:test';
import { missingPostgresql } from '../postgresql.ts';

const suite = 'success.test.ts on PostgreSQL and DuckDB';
if (missingPostgresql) test(suite, { skip: missingPostgresql }, () => {});
else describe(suite, async () => void (await import('./success.test.ts?world=postgresql' as string)));
