// The sources of the loads of the scenarios, a file of two rows; the target of their backups; and the flags with which a server may
// access these and the external systems.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serviceHostFlags } from '../injection/external_systems.ts';

const directory = fileURLToPath(new URL('../../data', import.meta.url));

/** Deleted when the process ends. */
export const backupDirectory = mkdtempSync(join(tmpdir(), 'tabularium-backups-'));
process.once('exit', () => rmSync(backupDirectory, { recursive: true, force: true }));

export const notesFile = `${directory}/notes.csv`;
const accessFlags = ['--load-directories', directory, '--backup-directories', backupDirectory, ...serviceHostFlags];
/** Results of more than one page are small enough for a test. */
export const scenarioFlags = [...accessFlags, '--page-bytes-max', '65536'];
