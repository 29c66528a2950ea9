// The searches of texts on PostgreSQL.
import { suitesOn } from '../stores.ts';

suitesOn('postgresql', [new URL('./searched_texts.test.ts', import.meta.url)]);
