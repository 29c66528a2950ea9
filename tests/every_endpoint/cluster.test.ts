// Every endpoint with a valid call, on a store on PostgreSQL and with the catalog `default` on a ClickHouse cluster.
import { suitesIn } from './worlds.ts';

suitesIn('cluster', ['success']);
