// Runs the tests (node:test), all of them or those under the paths given, and ends with what was skipped and why, and node's
// own counts. A file that hangs is ended and named, the others go on. In CI nothing may be skipped: a skip fails the run.
import { globSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const root = resolve(import.meta.dirname, '..');
const testTimeoutMs = 5 * 60_000;
/** A file that says nothing while a test of it runs: longer than a test may take. */
const silenceMaxMs = testTimeoutMs + 60_000;
/** A file whose tests are over and that does not end: something of it was left open. */
const endingMaxMs = 60_000;
const runTimeoutMs = 18 * 60_000;
/** Many tests wait for a child process, so at least two files; more than cores would disturb tests that measure waits. */
const filesAtOnce = Math.min(4, Math.max(2, availableParallelism()));
const isCi = ['true', '1'].includes(process.env.CI ?? '');
const countsPattern = /^(tests|suites|pass|fail|cancelled|skipped|todo) (\d+)$/;

type Event = { readonly type: string; readonly data: Record<string, unknown> };
interface FileRun {
  readonly file: string;
  readonly abort: AbortController;
  readonly events: Event[];
  testsRunning: number;
  hasBegun: boolean;
  lastSignMs: number;
}

const short = (file: string): string => relative(root, file);
const skips: string[] = [];
const problems: string[] = [];
const counts = new Map(['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo'].map((name) => [name, 0]));
const running = new Set<FileRun>();
let failures = 0;

function testFiles(given: readonly string[]): string[] {
  const paths = given.length > 0 ? given.map((path) => resolve(path)) : [join(root, 'tests')];
  const patterns = paths.map((path) =>
    statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, '**/*.test.ts') : path,
  );
  return globSync(patterns).sort();
}

function end(fileRun: FileRun, why: string): void {
  if (fileRun.abort.signal.aborted) return;
  problems.push(`${short(fileRun.file)} ${why}`);
  fileRun.abort.abort();
}

function endTheSilent(): void {
  for (const fileRun of running) {
    const silentMs = Date.now() - fileRun.lastSignMs;
    if (silentMs > silenceMaxMs) end(fileRun, `said nothing for ${silenceMaxMs / 1000} s`);
    else if (fileRun.hasBegun && fileRun.testsRunning === 0 && silentMs > endingMaxMs)
      end(fileRun, `did not end within ${endingMaxMs / 1000} s after its tests: what did it leave open?`);
  }
}

/** What is counted here and not shown again: a file's closing counts are added to those of the others. */
function isCounted({ type, data }: Event): boolean {
  const [, name, count] = type === 'test:diagnostic' ? (countsPattern.exec(String(data.message)) ?? []) : [];
  if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + Number(count));
  return name !== undefined || (type === 'test:diagnostic' && String(data.message).startsWith('duration_ms '));
}

function note(fileRun: FileRun, event: Event): void {
  const { type, data } = event;
  const isFile = data.file !== undefined && resolve(root, String(data.name)) === data.file;
  if (type === 'test:dequeue' || type === 'test:complete') {
    fileRun.lastSignMs = Date.now();
    if (!isFile) {
      fileRun.hasBegun = true;
      fileRun.testsRunning += type === 'test:dequeue' ? 1 : -1;
    }
  }
  if (type === 'test:fail') failures++;
  if (type === 'test:pass' && data.skip !== undefined && data.skip !== false) {
    const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason is given';
    skips.push(`${short(fileRun.file)}: ${data.name}: ${reason}`);
  }
  // The reporter lists the failures at a summary of the whole; each file's run has one, and the list is to be at the end.
  const isSummary = type === 'test:summary' && data.file === undefined;
  if (!isCounted(event) && !isSummary) fileRun.events.push(event);
}

async function runFile(file: string): Promise<Event[]> {
  const abort = new AbortController();
  const fileRun: FileRun = { file, abort, events: [], testsRunning: 0, hasBegun: false, lastSignMs: Date.now() };
  running.add(fileRun);
  const stream = run({ files: [file], cwd: root, timeout: testTimeoutMs, signal: abort.signal });
  for await (const event of stream) note(fileRun, event as Event);
  running.delete(fileRun);
  return fileRun.events;
}

async function runAll(files: readonly string[]): Promise<void> {
  const events = new PassThrough({ objectMode: true });
  const shown = events.compose(new spec());
  shown.on('data', (text: unknown) => void process.stdout.write(String(text)));
  const ended = new Promise((resolve) => shown.on('end', resolve));
  const left = [...files];
  const worker = async (): Promise<void> => {
    for (let file = left.shift(); file !== undefined; file = left.shift())
      for (const event of await runFile(file)) events.write(event);
  };
  await Promise.all(Array.from({ length: filesAtOnce }, worker));
  events.end();
  await ended;
}

function conclude(startMs: number): number {
  if (skips.length > 0) console.log(`\nskipped:\n${skips.map((skip) => `  ${skip}`).join('\n')}`);
  else console.log('\nskipped: nothing');
  if (isCi && skips.length > 0) problems.push('in CI nothing may be skipped');
  for (const problem of problems) console.log(`failed: ${problem}`);
  if (problems.length > 0 && counts.get('fail') === 0) counts.set('fail', problems.length);
  for (const [name, count] of counts) console.log(`# ${name} ${count}`);
  console.log(`# duration_ms ${(performance.now() - startMs).toFixed(0)}`);
  return failures > 0 || problems.length > 0 || counts.get('tests') === 0 ? 1 : 0;
}

async function main(): Promise<number> {
  const startMs = performance.now();
  const files = testFiles(process.argv.slice(2));
  if (files.length === 0) {
    console.error('there is no test file under the paths given');
    return 1;
  }
  const watch = setInterval(endTheSilent, 5000).unref();
  const deadline = setTimeout(() => {
    for (const fileRun of running) end(fileRun, `was running when ${runTimeoutMs / 60_000} minutes were over`);
    // Files that have not begun have no time left either.
    setTimeout(() => process.exit(conclude(startMs)), 5000);
  }, runTimeoutMs);
  await runAll(files);
  clearTimeout(deadline);
  clearInterval(watch);
  return conclude(startMs);
}

process.exit(await main());
