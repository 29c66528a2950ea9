// What the loads of the scenarios read: a file of two rows, and the flags with which a server may read it.
import { fileURLToPath } from 'node:url';

const directory = fileURLToPath(new URL('../data', import.meta.url));

export const notes = `${directory}/notes.csv`;
export const loading = ['--load-directories', directory];
