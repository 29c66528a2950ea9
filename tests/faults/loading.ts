// The sources of the loads of the scenarios, a file of two rows; the target of their backups; and the flags with which a server may
// access these and the surroundings.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { reaching } from './surroundings.ts';

const directory = fileURLToPath(new URL('../data', import.meta.url));

/** Deleted when the process ends. */
export const backups = mkdtempSync(join(tmpdir(), 'tabularium-backups-'));
process.once('exit', () => rmSync(backups, { recursive: true, force: true }));

export const notes = `${directory}/notes.csv`;
const reachable = ['--load-directories', directory, '--backup-directories', backups, ...reaching];
/** Results of more than one page are small enough for a test. */
export const loading = [...reachable, '--page-bytes-max', '65536'];
