// The model of the catalog on a store on PostgreSQL and a ClickHouse cluster.
import { describe, test } from 'node:test';
import { missingRing } from '../engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../postgresql.ts';

const suite = 'model.test.ts on PostgreSQL and ClickHouse';
const skip = missingRing || missingPostgresql;
if (skip) test(suite, { skip }, () => {});
else describe(suite, async () => void (await import('./model.test.ts?store=postgresql&engine=clickhouse' as string)));
