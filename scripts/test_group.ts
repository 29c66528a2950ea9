// The process of a group of test files, whose paths are its arguments: each file becomes a suite named by its path, so that its hooks
// apply to it only. Writes the processor time of each file, including its servers, engines and other child processes, to a file for
// scripts/test.ts.
import { AsyncResource } from 'node:async_hooks';
import { appendFileSync, readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { after, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';

const root = resolve(import.meta.dirname, '..');
const ticksPerSecond = 100;

/** Linux includes child processes that were waited for; elsewhere only the process itself is counted. */
function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000 + childrenTicks() * (1000 / ticksPerSecond);
}

function childrenTicks(): number {
  if (process.platform !== 'linux') return 0;
  // The name of the program, in parentheses, can contain spaces. cutime and cstime are fields 16 and 17 of proc_pid_stat(5).
  const fields = readFileSync('/proc/self/stat', 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[13]) + Number(fields[14]);
}

const files = process.argv.slice(2);
const usageFile = process.env.TEST_USAGE_FILE;
let recordedMs = 0;

/** Child processes that outlive their file are included in the last file of the group. */
function recordUsage(file: string): void {
  if (usageFile === undefined) return;
  const ms = processorMs();
  appendFileSync(usageFile, `${JSON.stringify({ file, ms: ms - recordedMs })}\n`);
  recordedMs = ms;
}

const group = new AsyncResource('test group');

/** A file is loaded when the one before has ended, as in a process of its own. */
function addSuite([file, ...rest]: readonly string[]): void {
  if (file === undefined) return;
  describe(relative(root, file), async () => {
    try {
      await import(pathToFileURL(file).href);
    } catch (error) {
      test('the file is loaded', () => Promise.reject(error));
    }
    after(() => {
      if (rest.length > 0) recordUsage(file);
      group.runInAsyncScope(addSuite, undefined, rest);
    });
  });
}

addSuite(files);
process.once('exit', () => recordUsage(files.at(-1) as string));
