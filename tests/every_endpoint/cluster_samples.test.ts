// The other tests over every endpoint that depend on the store or the engine, on a store on PostgreSQL and with the catalog `default` on a
// ClickHouse cluster: a sample of the operations each.
import { suitesIn } from './worlds.ts';

suitesIn('cluster', ['refusals', 'methods', 'missing', 'preconditions', 'random_bodies', 'access', 'outcomes']);
