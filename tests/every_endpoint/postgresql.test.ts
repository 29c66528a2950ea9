// Every endpoint with a valid call, on a store on PostgreSQL and with DuckDB.
import { suitesIn } from './worlds.ts';

suitesIn('postgresql', ['success']);
