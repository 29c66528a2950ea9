// Runs the tests (node:test), all of them or those under the paths given, and ends with what was skipped and why, and node's
// own summary. In CI nothing may be skipped: a skipped test there fails the run.
import { globSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const root = resolve(import.meta.dirname, '..');
const testTimeoutMs = 5 * 60_000;
/** A file whose tests are over, or timed out, and that neither ends nor says anything. */
const silenceMaxMs = testTimeoutMs + 60_000;
const runTimeoutMs = 18 * 60_000;
/** Many tests wait for a child process, so at least two files; more than cores would disturb tests that measure waits. */
const filesAtOnce = Math.min(4, Math.max(2, availableParallelism()));
const isCi = ['true', '1'].includes(process.env.CI ?? '');
const countsPattern = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

function testFiles(given: readonly string[]): string[] {
  const paths = given.length > 0 ? given.map((path) => resolve(path)) : [join(root, 'tests')];
  const patterns = paths.map((path) =>
    statSync(path, { throwIfNoEntry: false })?.isDirectory() ? join(path, '**/*.test.ts') : path,
  );
  return globSync(patterns).sort();
}

const short = (file: string): string => relative(root, file);
const skips: string[] = [];
const counts: string[] = [];
/** File → when it last said anything (ms). */
const running = new Map<string, number>();
let failures = 0;
let problem: string | undefined;

const abort = new AbortController();
function giveUp(why: string): void {
  problem ??= `${why}; running: ${[...running.keys()].map(short).join(', ') || 'nothing'}`;
  abort.abort();
  // A child that does not end when it is told to must not keep the run alive.
  setTimeout(() => {
    console.log(`\n${problem}\n# fail ${Math.max(1, failures)}`);
    process.exit(1);
  }, 10_000).unref();
}

type Events = ReturnType<typeof run>;

/** What the reporter is shown: all but the closing counts, which are held back for the end. */
async function* watched(events: Events) {
  for await (const event of events) {
    const data = event.data as { file?: string; name?: string; skip?: string | boolean; message?: string };
    if (event.type === 'test:fail') failures++;
    if (event.type === 'test:pass' && data.skip !== undefined && data.skip !== false) {
      const reason = typeof data.skip === 'string' && data.skip !== '' ? data.skip : 'no reason is given';
      skips.push(`${short(data.file ?? '')}: ${data.name}: ${reason}`);
    }
    if (event.type === 'test:diagnostic' && countsPattern.test(data.message ?? '')) counts.push(data.message ?? '');
    else yield event;
  }
}

/** These two events come as they happen, the rest in the order of the files. */
function watchSilence(events: Events): NodeJS.Timeout {
  const isFile = (data: { name: string; file?: string | undefined }): boolean =>
    data.file !== undefined && resolve(root, data.name) === data.file;
  events.on('test:dequeue', (data) => void (data.file && running.set(data.file, Date.now())));
  events.on('test:complete', (data) => {
    if (isFile(data)) running.delete(data.file ?? '');
    else if (data.file) running.set(data.file, Date.now());
  });
  return setInterval(() => {
    for (const [file, since] of running)
      if (Date.now() - since > silenceMaxMs) giveUp(`${short(file)} said nothing for ${silenceMaxMs / 1000} s`);
  }, 5000).unref();
}

async function main(): Promise<number> {
  const files = testFiles(process.argv.slice(2));
  if (files.length === 0) {
    console.error('there is no test file under the paths given');
    return 1;
  }
  const deadline = setTimeout(() => giveUp(`not done after ${runTimeoutMs / 60_000} minutes`), runTimeoutMs);
  const events = run({ files, cwd: root, concurrency: filesAtOnce, timeout: testTimeoutMs, signal: abort.signal });
  const silence = watchSilence(events);
  await pipeline(watched(events), new spec(), process.stdout, { end: false });
  clearTimeout(deadline);
  clearInterval(silence);
  if (skips.length > 0) console.log(`\nskipped:\n${skips.map((skip) => `  ${skip}`).join('\n')}`);
  else console.log('\nskipped: nothing');
  if (isCi && skips.length > 0) problem ??= 'in CI nothing may be skipped';
  if (problem !== undefined) console.log(`\nfailed: ${problem}`);
  console.log(counts.map((line) => `# ${line}`).join('\n'));
  return failures > 0 || problem !== undefined || counts.length === 0 ? 1 : 0;
}

process.exitCode = await main();
