// The suite of stores on PostgreSQL.
import { suitesOn } from '../stores.ts';

suitesOn('postgresql', [new URL('./store.test.ts', import.meta.url)]);
