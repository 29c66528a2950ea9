// The other tests over every endpoint that depend on the store or the engine, on a store on PostgreSQL and with DuckDB: a sample of the
// operations each.
import { suitesIn } from './worlds.ts';

suitesIn('postgresql', ['refusals', 'methods', 'missing', 'preconditions', 'random_bodies', 'access', 'outcomes']);
