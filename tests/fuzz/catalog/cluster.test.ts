// The model of the catalog over HTTP, with a store on PostgreSQL and all catalogs on a ClickHouse cluster.
import { suitesIn } from '../../every_endpoint/worlds.ts';

suitesIn('cluster', ['catalog'], import.meta.url);
