// The model of the catalog on DuckDB, with a store on SQLite and on PostgreSQL.
import { describe, test } from 'node:test';
import { missingPostgresql } from '../postgresql.ts';

describe('model.test.ts on SQLite and DuckDB', async () =>
  void (await import('./model.test.ts?engine=duckdb' as string)));

const suite = 'model.test.ts on PostgreSQL and DuckDB';
if (missingPostgresql) test(suite, { skip: missingPostgresql }, () => {});
else describe(suite, async () => void (await import('./model.test.ts?store=postgresql&engine=duckdb' as string)));
