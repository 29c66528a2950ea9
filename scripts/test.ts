// Runs the tests (node:test), all of them or those under the given paths, and reports skipped tests with their reasons, the slowest
// files, and node's own counts. A file that hangs is killed and named, and the others continue. In CI a skipped test fails the run.
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, constants, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { type MachineSpeed, measureMachine } from './machine_speed.ts';
import { ProcessorLoad } from './processor_load.ts';

const root = resolve(import.meta.dirname, '..');
/** If more cases are requested (tests/budget.ts), a run has no time limit. */
const isSample = process.env.TEST_BUDGET === undefined;
/** For a quiet machine, like all deadlines here and in tests; `scale` is the factor for this machine. */
const testTimeoutMs = (isSample ? 5 : 60) * 60_000;
/** For a file that reports nothing while one of its tests runs: longer than a test may take. */
const silenceMaxMs = testTimeoutMs + 60_000;
/** For a file whose tests have ended and that does not exit, because it left something open. */
const endingMaxMs = 60_000;
/** For one with a failed test, which may have skipped its cleanup: the failure is reported. */
const endingAfterFailureMaxMs = 5000;
/** The limit of the whole run on any machine. */
const runMsMax = Number(process.env.TEST_MINUTES_MAX ?? (isSample ? 35 : 24 * 60)) * 60_000;
/** After that limit: for files to end and to report their results. */
const abortMsMax = 5000;
/** Nothing is computed after the tests, so that even a slow machine ends soon. */
const endingScaleMax = 3;
const remeasureEveryMs = 60_000;
const slowestShown = Number(process.env.TEST_SLOWEST ?? 15);
/** One more than there are cores, because tests wait for other processes, for timers and for the disk. */
const filesAtOnce = Math.min(5, availableParallelism() + 1);
/** While processors are idle, more files run at once. */
const filesAtOnceMax = filesAtOnce + 2;
const idlePartMin = 0.15;
const loadIntervalMs = 1000;
const isCi = ['true', '1'].includes(process.env.CI ?? '');
const memoryRoot = '/dev/shm';
/** TMPFS_MAGIC of statfs(2). */
const tmpfsType = 0x01021994;
/** More than the temporary files of `filesAtOnceMax` files. */
const temporaryBytesMax = 4 * 1024 ** 3;
/** For the temporary files and the processes of the tests. */
const memoryBytesMin = 8 * 1024 ** 3;
const usageModule = new URL('file_usage.ts', import.meta.url).href;
const countsPattern = /^(tests|suites|pass|fail|cancelled|skipped|todo) (\d+)$/;

type Event = { readonly type: string; readonly data: Record<string, unknown> };
interface FileRun {
  readonly file: string;
  readonly abort: AbortController;
  readonly events: Event[];
  readonly startedMs: number;
  /** The number of running tests of each name. */
  readonly testsRunning: Map<string, number>;
  hasBegun: boolean;
  hasFailed: boolean;
  lastSignMs: number;
}

const short = (file: string): string => relative(root, file);
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
const testsOf = ({ testsRunning }: FileRun): string =>
  testsRunning.size === 0 ? 'no test runs' : `running: ${[...testsRunning.keys()].join(' > ')}`;
const skips: string[] = [];
const problems: string[] = [];
const counts = new Map(['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo'].map((name) => [name, 0]));
const running = new Set<FileRun>();
const durations: { readonly file: string; readonly ms: number }[] = [];
let left: string[] = [];
let failures = 0;
let scale = 1;
let usageFile = '';

function testFiles(given: readonly string[]): string[] {
  const paths = given.length > 0 ? given.map((path) => resolve(path)) : [join(root, 'tests')];
  const patterns = paths.map((path) =>
    statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, '**/*.test.ts') : path,
  );
  return globSync(patterns, { exclude: ['**/node_modules/**'] }).sort();
}

function end(fileRun: FileRun, why: string): void {
  if (fileRun.abort.signal.aborted) return;
  problems.push(`${short(fileRun.file)} ${why}`);
  fileRun.abort.abort();
}

const endingMsMax = ({ hasFailed }: FileRun): number =>
  hasFailed ? endingAfterFailureMaxMs * scale : endingMaxMs * Math.min(scale, endingScaleMax);

function endTheSilent(): void {
  for (const fileRun of running) {
    const silentMs = performance.now() - fileRun.lastSignMs;
    if (silentMs > silenceMaxMs * scale) end(fileRun, `reported nothing for ${seconds(silentMs)}: ${testsOf(fileRun)}`);
    else if (fileRun.hasBegun && fileRun.testsRunning.size === 0 && silentMs > endingMsMax(fileRun))
      end(fileRun, `did not end within ${seconds(silentMs)} after its tests: what did it leave open?`);
  }
}

/** Counted here and not shown again: the final counts of a file are added to those of the others. */
function isCounted({ type, data }: Event): boolean {
  const [, name, count] = type === 'test:diagnostic' ? (countsPattern.exec(String(data.message)) ?? []) : [];
  if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + Number(count));
  return name !== undefined || (type === 'test:diagnostic' && String(data.message).startsWith('duration_ms '));
}

function note(fileRun: FileRun, event: Event): void {
  const { type, data } = event;
  const isFile = data.file !== undefined && resolve(root, String(data.name)) === data.file;
  if (type === 'test:dequeue' || type === 'test:complete') {
    fileRun.lastSignMs = performance.now();
    if (!isFile) {
      fileRun.hasBegun = true;
      const name = String(data.name);
      const count = (fileRun.testsRunning.get(name) ?? 0) + (type === 'test:dequeue' ? 1 : -1);
      if (count > 0) fileRun.testsRunning.set(name, count);
      else fileRun.testsRunning.delete(name);
    }
  }
  if (type === 'test:fail') {
    failures++;
    fileRun.hasFailed = true;
  }
  if (type === 'test:pass' && data.skip !== undefined && data.skip !== false) {
    const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason is given';
    skips.push(`${short(fileRun.file)}: ${data.name}: ${reason}`);
  }
  // The reporter lists failures at the end of each file; here the list is printed once, at the end of the run.
  const isSummary = type === 'test:summary' && data.file === undefined;
  if (!isCounted(event) && !isSummary) fileRun.events.push(event);
}

async function runFile(file: string): Promise<Event[]> {
  const abort = new AbortController();
  const startedMs = performance.now();
  const fileRun: FileRun = {
    file,
    abort,
    events: [],
    startedMs,
    testsRunning: new Map(),
    hasBegun: false,
    hasFailed: false,
    lastSignMs: startedMs,
  };
  running.add(fileRun);
  const stream = run({
    files: [file],
    cwd: root,
    execArgv: ['--import', usageModule],
    timeout: testTimeoutMs * scale,
    signal: abort.signal,
  });
  for await (const event of stream) note(fileRun, event as Event);
  running.delete(fileRun);
  durations.push({ file, ms: performance.now() - startedMs });
  return fileRun.events;
}

async function runAll(): Promise<void> {
  const events = new PassThrough({ objectMode: true });
  const shown = events.compose(new spec());
  shown.on('data', (text: unknown) => void process.stdout.write(String(text)));
  const ended = new Promise((resolve) => shown.on('end', resolve));
  const runNext = async (): Promise<boolean> => {
    const file = left.shift();
    if (file === undefined) return false;
    for (const event of await runFile(file)) events.write(event);
    return true;
  };
  const runEach = async (): Promise<void> => {
    while (await runNext());
  };
  const added: Promise<boolean>[] = [];
  const load = new ProcessorLoad();
  const adding = setInterval(() => {
    if (load.idlePart() >= idlePartMin && running.size < filesAtOnceMax) added.push(runNext());
  }, loadIntervalMs);
  await Promise.all(Array.from({ length: filesAtOnce }, runEach));
  clearInterval(adding);
  await Promise.all(added);
  events.end();
  await ended;
}

/** The limit of the whole run has passed: names what is running and what has not begun, so that it can be made faster or split. */
function endAll(startMs: number): void {
  for (const fileRun of running) {
    const ranMs = performance.now() - fileRun.startedMs;
    end(
      fileRun,
      `ran for ${seconds(ranMs)} when the limit of ${runMsMax / 60_000} minutes was over: ${testsOf(fileRun)}`,
    );
  }
  if (left.length > 0) problems.push(`${left.length} files were not run: ${left.map(short).join(', ')}`);
  left = [];
  setTimeout(() => process.exit(conclude(startMs)), abortMsMax);
}

/** The processor time of each file that exited, by path (file_usage.ts). */
function processorTimes(): Map<string, number> {
  const lines = readFileSync(usageFile, 'utf8').split('\n').slice(0, -1);
  return new Map(
    lines.map((line) => {
      const { file, ms } = JSON.parse(line) as { file: string; ms: number };
      return [file, ms];
    }),
  );
}

function showSlowest(): void {
  const processorMs = processorTimes();
  const slowest = durations.toSorted((a, b) => b.ms - a.ms).slice(0, slowestShown);
  console.log('\nslowest files, and the processor time that they used:');
  for (const { file, ms } of slowest)
    console.log(`  ${seconds(ms).padStart(8)}  ${seconds(processorMs.get(file) ?? 0).padStart(8)}  ${short(file)}`);
  console.log(`processor time of all files: ${seconds([...processorMs.values()].reduce((sum, ms) => sum + ms, 0))}`);
}

function conclude(startMs: number): number {
  showSlowest();
  if (skips.length > 0) console.log(`\nskipped:\n${skips.map((skip) => `  ${skip}`).join('\n')}`);
  else console.log('\nskipped: nothing');
  if (isCi && skips.length > 0) problems.push('in CI nothing may be skipped');
  for (const problem of problems) console.log(`failed: ${problem}`);
  if (problems.length > 0 && counts.get('fail') === 0) counts.set('fail', problems.length);
  for (const [name, count] of counts) console.log(`# ${name} ${count}`);
  console.log(`# deadlines x${scale.toFixed(1)}`);
  console.log(`# duration_ms ${(performance.now() - startMs).toFixed(0)}`);
  return failures > 0 || problems.length > 0 || counts.get('tests') === 0 ? 1 : 0;
}

/** Files that begin later use the new scale. It only grows, because what was slow once may be slow again. */
async function scaleDeadlines(): Promise<MachineSpeed> {
  const speed = await measureMachine(filesAtOnce);
  scale = Math.max(scale, speed.scale, Number(process.env.TEST_TIME_SCALE) || 1);
  process.env.TEST_TIME_SCALE = scale.toFixed(2);
  return speed;
}

/**
 * For the temporary files of this run's processes, their compile cache (half of the cost of a start), and the processor times of
 * the files. Removed at the end.
 */
function makeRunDirectory(): string {
  const directory = mkdtempSync(join(temporaryRoot(), 'tabularium-tests-'));
  for (const [variable, name] of Object.entries({ TMPDIR: 'tmp', NODE_COMPILE_CACHE: 'compiled' })) {
    process.env[variable] = join(directory, name);
    mkdirSync(join(directory, name));
  }
  usageFile = join(directory, 'processor_times');
  writeFileSync(usageFile, '');
  process.env.TEST_USAGE_FILE = usageFile;
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  return directory;
}

/**
 * A file system in memory if there is one with enough space: many tests spend a third of their time waiting for disk flushes. Tests
 * kill processes, which loses no written data, so none depends on what has reached a disk. `TMPDIR` takes precedence.
 */
function temporaryRoot(): string {
  if (process.env.TMPDIR !== undefined || !existsSync(memoryRoot)) return tmpdir();
  const { type, bavail, bsize } = statfsSync(memoryRoot);
  const hasRoom = bavail * bsize >= temporaryBytesMax && process.availableMemory() >= memoryBytesMin;
  return type === tmpfsType && hasRoom ? memoryRoot : tmpdir();
}

async function main(): Promise<number> {
  const startMs = performance.now();
  left = testFiles(process.argv.slice(2));
  if (left.length === 0) {
    console.error('there is no test file under the paths given');
    return 1;
  }
  const directory = makeRunDirectory();
  const { startMs: processMs, computeMs } = await scaleDeadlines();
  console.log(
    `a process starts in ${processMs.toFixed(0)} ms, the sample computation takes ${computeMs.toFixed(0)} ms: deadlines x${scale.toFixed(1)}; temporary files are in ${directory}`,
  );
  const watches = [setInterval(endTheSilent, 5000), setInterval(scaleDeadlines, remeasureEveryMs)];
  const deadline = setTimeout(() => endAll(startMs), runMsMax);
  await runAll();
  clearTimeout(deadline);
  for (const watch of watches) clearInterval(watch);
  return conclude(startMs);
}

process.exit(await main());
