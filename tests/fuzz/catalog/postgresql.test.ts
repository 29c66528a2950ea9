// The model of the catalog over HTTP, with a store on PostgreSQL.
import { suitesOn } from '../../stores.ts';

suitesOn('postgresql', [new URL('./catalog.test.ts', import.meta.url)]);
