// Runs the tests (node:test), all of them or those under the given paths, in groups of files, and reports skipped tests with their
// reasons, the slowest files, and node's own counts. A file that hangs is killed and named, and the other groups continue. In CI a
// skipped test fails the run, unless it is one of tests/skipped_in_ci.ts.
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
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
import { maySkipInCi } from '../tests/skipped_in_ci.ts';
import { deadlineFactor, type MachineSpeed, measureMachine } from './machine_speed.ts';
import { ProcessorLoad } from './processor_load.ts';
import { type TestGroup, TestQueue } from './test_queue.ts';

const root = resolve(import.meta.dirname, '..');
/** If more cases are requested (tests/budget.ts), a run has no time limit. */
const isSample = process.env.TEST_BUDGET === undefined;
/** Longer than a wait inside a test. For a quiet machine, like all deadlines here and in tests; `factor` is that of this machine. */
const testTimeoutMs = (isSample ? 2.5 : 30) * 60_000;
/** For a group that reports nothing while one of its tests runs: longer than a test may take. */
const silenceMaxMs = testTimeoutMs + 30_000;
/** For a group whose tests have ended and that does not exit, because it left something open. */
const endingMaxMs = 30_000;
/** For one with a failed test, which may have skipped its cleanup: the failure is reported. */
const endingAfterFailureMaxMs = 3000;
/** The limit of the whole run on any machine. */
const runMsMax = Number(process.env.TEST_MINUTES_MAX ?? (isSample ? 60 : 24 * 60)) * 60_000;
/** After that limit: for files to end and to report their results. */
const abortMsMax = 5000;
/** Nothing is computed after the tests, so that even a slow machine ends soon. */
const endingFactorMax = 4;
const remeasureEveryMs = 60_000;
/** Of what a process wrote before it ended badly. */
const linesMax = 30;
const slowestShown = Number(process.env.TEST_SLOWEST ?? 15);
/** One more than there are cores, because tests wait for other processes, for timers and for the disk. */
const processesAtOnce = Math.min(5, availableParallelism() + 1);
/** While processors are idle, more files run at once. */
const processesMax = processesAtOnce + 5;
const idlePartMin = 0.15;
/** More than a file with its servers and a cluster of three nodes uses. */
const idleBytesMin = 2 * 1024 ** 3;
const loadIntervalMs = 1000;
const isCi = ['true', '1'].includes(process.env.CI ?? '');
const memoryRoot = '/dev/shm';
/** TMPFS_MAGIC of statfs(2). */
const tmpfsType = 0x01021994;
/** More than the temporary files of `processesMax` files. */
const temporaryBytesMax = 4 * 1024 ** 3;
/** For the temporary files and the processes of the tests. */
const memoryBytesMin = 8 * 1024 ** 3;
const groupModule = join(import.meta.dirname, 'test_group.ts');
const countsPattern = /^(tests|suites|pass|fail|cancelled|skipped|todo) (\d+)$/;

type Event = { readonly type: string; readonly data: Record<string, unknown> };
interface GroupRun {
  readonly files: TestGroup;
  readonly abort: AbortController;
  readonly events: Event[];
  readonly startedMs: number;
  /** The number of running tests of each name. */
  readonly testsRunning: Map<string, number>;
  /** In the order in which they began; the last one is running, or was the last to run. */
  readonly begun: string[];
  /** What its process wrote to the standard error, and what node:test reported outside of tests: the last of it. */
  readonly lastLines: string[];
  hasFailed: boolean;
  lastSignMs: number;
}

const short = (file: string): string => relative(root, file);
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
/** Without the suite of the file. */
const testsOf = ({ testsRunning, begun }: GroupRun): string => {
  const names = [...testsRunning.keys()].filter((name) => !begun.some((file) => short(file) === name));
  return names.length === 0 ? 'no test runs' : `running: ${names.join(' > ')}`;
};
const skips: { readonly text: string; readonly isAllowed: boolean }[] = [];
const problems: string[] = [];
const counts = new Map(['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo'].map((name) => [name, 0]));
const running = new Set<GroupRun>();
const durations: { readonly file: string; readonly ms: number }[] = [];
let failures = 0;
let slowness = 1;
let factor = deadlineFactor(slowness);
let usageFile = '';
let slownessFile = '';

function testFiles(given: readonly string[]): string[] {
  const paths = given.length > 0 ? given.map((path) => resolve(path)) : [join(root, 'tests')];
  const patterns = paths.map((path) =>
    statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, '**/*.test.ts') : path,
  );
  return globSync(patterns, { exclude: ['**/node_modules/**'] }).sort();
}

function end(groupRun: GroupRun, why: string, files: readonly string[] = groupRun.begun.slice(-1)): void {
  if (groupRun.abort.signal.aborted) return;
  problems.push(`${(files.length > 0 ? files : groupRun.files).map(short).join(' or ')} ${why}`);
  groupRun.abort.abort();
}

const endingMsMax = ({ hasFailed }: GroupRun): number =>
  hasFailed ? endingAfterFailureMaxMs * factor : endingMaxMs * Math.min(factor, endingFactorMax);

function endTheSilent(): void {
  for (const groupRun of running) {
    const silentMs = performance.now() - groupRun.lastSignMs;
    if (silentMs > silenceMaxMs * factor)
      end(groupRun, `reported nothing for ${seconds(silentMs)}: ${testsOf(groupRun)}`);
    else if (groupRun.begun.length > 0 && groupRun.testsRunning.size === 0 && silentMs > endingMsMax(groupRun))
      end(groupRun, `did not end within ${seconds(silentMs)} after its tests: what did it leave open?`, groupRun.files);
  }
}

/** Counted here and not shown again: the final counts of a file are added to those of the others. */
function isCounted({ type, data }: Event): boolean {
  const [, name, count] = type === 'test:diagnostic' ? (countsPattern.exec(String(data.message)) ?? []) : [];
  if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + Number(count));
  return name !== undefined || (type === 'test:diagnostic' && String(data.message).startsWith('duration_ms '));
}

function noteLine({ lastLines }: GroupRun, { data }: Event): void {
  lastLines.push(String(data.message).trimEnd());
  if (lastLines.length > linesMax) lastLines.shift();
}

/** node:test shows neither the exit code nor the signal of a process that ended although all of its tests passed. */
function noteEndOfProcess({ files, begun, lastLines, abort }: GroupRun, { data }: Event): void {
  if (abort.signal.aborted) return;
  const { exitCode, signal } = (data.details as { error: { exitCode?: unknown; signal?: unknown } }).error;
  const end = typeof signal === 'string' ? `by ${signal}` : `with exit code ${exitCode}`;
  const last = lastLines.length === 0 ? 'it wrote nothing' : `its last lines:\n  ${lastLines.join('\n  ')}`;
  problems.push(
    `the process of ${files.map(short).join(', ')} ended ${end}; the last file was ${begun.slice(-1).map(short)}; ${last}`,
  );
}

function note(groupRun: GroupRun, event: Event): void {
  const { type, data } = event;
  const isGroup = data.name === groupModule;
  if (type === 'test:dequeue' || type === 'test:complete') {
    groupRun.lastSignMs = performance.now();
    const file = data.file === groupModule && !isGroup ? resolve(root, String(data.name)) : undefined;
    if (file !== undefined && type === 'test:dequeue') groupRun.begun.push(file);
    if (file !== undefined && type === 'test:complete')
      durations.push({ file, ms: (data.details as { duration_ms: number }).duration_ms });
    if (!isGroup) {
      const name = String(data.name);
      const count = (groupRun.testsRunning.get(name) ?? 0) + (type === 'test:dequeue' ? 1 : -1);
      if (count > 0) groupRun.testsRunning.set(name, count);
      else groupRun.testsRunning.delete(name);
    }
  }
  if (type === 'test:stderr' || (type === 'test:diagnostic' && data.nesting === 0)) noteLine(groupRun, event);
  if (type === 'test:fail') {
    failures++;
    groupRun.hasFailed = true;
    if (isGroup) noteEndOfProcess(groupRun, event);
  }
  if (type === 'test:pass' && data.skip !== undefined && data.skip !== false) {
    const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason is given';
    const file = groupRun.begun.slice(-1).map(short).join();
    const name = String(data.name);
    skips.push({ text: `${file}: ${name}: ${reason}`, isAllowed: maySkipInCi({ file, name, reason }) });
  }
  // The reporter lists failures at the end of each file; here the list is printed once, at the end of the run.
  const isSummary = type === 'test:summary' && data.file === undefined;
  if (!isCounted(event) && !isSummary) groupRun.events.push(event);
}

async function runGroup(files: TestGroup): Promise<Event[]> {
  const abort = new AbortController();
  const startedMs = performance.now();
  const groupRun: GroupRun = {
    files,
    abort,
    events: [],
    startedMs,
    testsRunning: new Map(),
    begun: [],
    lastLines: [],
    hasFailed: false,
    lastSignMs: startedMs,
  };
  running.add(groupRun);
  const stream = run({
    files: [groupModule],
    argv: files,
    cwd: root,
    timeout: testTimeoutMs * factor,
    signal: abort.signal,
  });
  for await (const event of stream) note(groupRun, event as Event);
  running.delete(groupRun);
  return groupRun.events;
}

async function runAll(queue: TestQueue): Promise<void> {
  const events = new PassThrough({ objectMode: true });
  const shown = events.compose(new spec());
  shown.on('data', (text: unknown) => void process.stdout.write(String(text)));
  const ended = new Promise((resolve) => shown.on('end', resolve));
  const runOne = async (files: TestGroup): Promise<void> => {
    for (const event of await runGroup(files)) events.write(event);
  };
  const runEach = async (): Promise<void> => {
    for (let files = queue.next(); files !== undefined; files = queue.next()) await runOne(files);
  };
  const added: Promise<void>[] = [];
  const load = new ProcessorLoad();
  const adding = setInterval(() => {
    const isIdle = load.idlePart() >= idlePartMin && process.availableMemory() >= idleBytesMin;
    const files = isIdle && running.size < processesMax ? queue.nextForIdle() : undefined;
    if (files !== undefined) added.push(runOne(files));
  }, loadIntervalMs);
  await Promise.all(Array.from({ length: processesAtOnce }, runEach));
  clearInterval(adding);
  await Promise.all(added);
  events.end();
  await ended;
}

/** The limit of the whole run has passed: names what is running and what has not begun, so that it can be made faster or split. */
function endAll(queue: TestQueue, startMs: number): void {
  for (const groupRun of running) {
    const ranMs = performance.now() - groupRun.startedMs;
    end(
      groupRun,
      `ran for ${seconds(ranMs)} when the limit of ${runMsMax / 60_000} minutes was over: ${testsOf(groupRun)}`,
    );
  }
  const notRun = [...running].flatMap(({ files, begun }) => files.slice(begun.length)).concat(queue.files);
  if (notRun.length > 0) problems.push(`${notRun.length} files were not run: ${notRun.map(short).join(', ')}`);
  queue.clear();
  setTimeout(() => process.exit(conclude(startMs)), abortMsMax);
}

/** The processor time of each file that exited, by path (test_group.ts). */
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
  if (skips.length > 0) console.log(`\nskipped:\n${skips.map(({ text }) => `  ${text}`).join('\n')}`);
  else console.log('\nskipped: nothing');
  if (isCi && skips.some(({ isAllowed }) => !isAllowed))
    problems.push('in CI nothing may be skipped but what tests/skipped_in_ci.ts lists');
  for (const problem of problems) console.log(`failed: ${problem}`);
  if (problems.length > 0 && counts.get('fail') === 0) counts.set('fail', problems.length);
  for (const [name, count] of counts) console.log(`# ${name} ${count}`);
  console.log(`# deadlines x${factor.toFixed(1)}`);
  console.log(`# duration_ms ${(performance.now() - startMs).toFixed(0)}`);
  return failures > 0 || problems.length > 0 || counts.get('tests') === 0 ? 1 : 0;
}

/** Tests that already run use the new factor, too (tests/deadline.ts). It only grows: what was slow once may be slow again. */
async function scaleDeadlines(): Promise<MachineSpeed> {
  const speed = await measureMachine(processesAtOnce);
  slowness = Math.max(slowness, speed.slowness, Number(process.env.TEST_TIME_SCALE) || 1);
  factor = deadlineFactor(slowness);
  writeFileSync(`${slownessFile}.new`, slowness.toFixed(2));
  renameSync(`${slownessFile}.new`, slownessFile);
  return speed;
}

/**
 * For the temporary files of this run's processes, their compile cache (half of the cost of a start), the processor times of the
 * files, and how slow the machine is. Removed at the end.
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
  slownessFile = join(directory, 'slowness');
  process.env.TEST_SLOWNESS_FILE = slownessFile;
  // Processes of a file that was ended may still write there.
  process.once('exit', () => rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }));
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
  const files = testFiles(process.argv.slice(2));
  if (files.length === 0) {
    console.error('there is no test file under the paths given');
    return 1;
  }
  const queue = new TestQueue(files, join(root, 'tests'));
  const directory = makeRunDirectory();
  const { startMs: processMs, computeMs } = await scaleDeadlines();
  console.log(
    `a process starts in ${processMs.toFixed(0)} ms, the sample computation takes ${computeMs.toFixed(0)} ms: deadlines x${factor.toFixed(1)}; temporary files are in ${directory}`,
  );
  const watches = [setInterval(endTheSilent, 5000), setInterval(scaleDeadlines, remeasureEveryMs)];
  const deadline = setTimeout(() => endAll(queue, startMs), runMsMax);
  await runAll(queue);
  clearTimeout(deadline);
  for (const watch of watches) clearInterval(watch);
  return conclude(startMs);
}

process.exit(await main());
