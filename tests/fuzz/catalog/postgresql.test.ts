// The model of the catalog over HTTP, with a store on PostgreSQL.
import { suitesIn } from '../../every_endpoint/worlds.ts';

suitesIn('postgresql', ['catalog'], import.meta.url);
