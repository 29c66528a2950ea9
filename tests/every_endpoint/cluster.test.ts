// Every endpoint with a valid call, on a store on PostgreSQL and with the catalog `default` on a ClickHouse cluster.
import { describe, test } from 'node:test';
import { missingCluster } from './worlds.ts';

const suite = 'success.test.ts on PostgreSQL and ClickHouse';
if (missingCluster) test(suite, { skip: missingCluster }, () => {});
else describe(suite, async () => void (await import('./success.test.ts?world=cluster' as string)));
