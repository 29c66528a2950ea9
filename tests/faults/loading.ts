// What the loads of the scenarios read: a file of two rows, and the flags with which a server may read it, and reach what is around it.
import { fileURLToPath } from 'node:url';
import { reaching } from './surroundings.ts';

const directory = fileURLToPath(new URL('../data', import.meta.url));

export const notes = `${directory}/notes.csv`;
/** Results of more than one page are small enough for a test. */
export const loading = ['--load-directories', directory, ...reaching, '--page-bytes-max', '65536'];
