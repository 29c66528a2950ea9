// `npm run soak -- [--minutes 10] [--seed n] [--all] [--only part] [--parallel n]`: kills (with `--all` at every step), random commands,
// concurrent clients, random SQL and real data sets for the given time, then a table of what was run and what failed. Each part is
// replayed by the seed that it prints. Faults of clusters and steps on them have `n` installations at a time. Exits with 1 if anything was wrong.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Transferred } from '../cli/remote/transfer/streams.ts';
import { runHistory } from '../consistency/run_history.ts';
import { MovedSsb } from '../demo/moved_ssb.ts';
import { clusterHosts } from '../engines/clickhouse/cluster_warehouse.ts';
import { missingRing, startRing } from '../engines/clickhouse/ring/ring.ts';
import type { ClusterKind } from '../faults/cluster/cluster_world.ts';
import { closeExternalSystems } from '../faults/injection/external_systems.ts';
import { ServerProcess } from '../faults/injection/server_process.ts';
import { allCells, runCells } from '../faults/kills/keyed_deaths.ts';
import { scenarios } from '../faults/scenarios/scenarios.ts';
import { scheduleScenarios, taskScenarios } from '../faults/scenarios/task_scenarios.ts';
import { runCatalogModel } from '../fuzz/catalog/catalog_run.ts';
import { duckdb } from '../fuzz/catalog/modelled_engines.ts';
import { levels, runConcurrently } from '../fuzz/concurrency/concurrency.ts';
import { moveRows } from '../fuzz/concurrency/moving_rows.ts';
import { readRows } from '../fuzz/concurrency/reading_rows.ts';
import { runGrantsModel } from '../fuzz/grants/grants_run.ts';
import { fuzzSql } from '../fuzz/sql/sql_fuzz.ts';
import { missingPostgresql } from '../postgresql.ts';
import { Random } from '../random.ts';
import { start, startProcess } from '../server.ts';
import { breakStreams } from './broken_streams.ts';
import { clusterFaults } from './cluster_faults.ts';
import { clusterSteps, decommissionSteps } from './cluster_steps.ts';
import { measureBesideHostile } from './hostile.ts';
import { checkDataDirectory, killAtInstants } from './instants.ts';
import { killRandomly } from './kills.ts';
import { killServersRandomly } from './kills_of_servers.ts';
import { measureMemory } from './memory.ts';
import { loadRealSets } from './real_sets.ts';
import { allSteps, describeStep, killAtStep, StepCounts } from './steps.ts';
import { streamThroughCommands } from './streams.ts';

interface Outcome {
  readonly part: string;
  readonly seconds: number;
  /** The amount of work, as text for the table. */
  readonly done: string;
  readonly problems: readonly string[];
}

interface Part {
  readonly name: string;
  /** The part's share of the total time. */
  readonly share: number;
  /** The part ends on its own, independent of the time. */
  readonly isFinite?: boolean;
  readonly run: (seed: number, deadline: number, problems: string[], parallel: number) => Promise<string>;
}

const everything = [...scenarios, ...taskScenarios, ...scheduleScenarios];
const instantsMin = 200;
const roundsEach = 25;
const stepsEach = 30;
const statementsEach = 4000;
/** The search for a linearization of a register grows with its history. */
const historyMs = 30_000;
const brokenBytes = 1_000_000_000;

const parts: readonly Part[] = [
  { name: 'killed at steps', share: 0.2, isFinite: true, run: killedAtSteps },
  { name: 'keyed requests and deaths', share: 0.1, isFinite: true, run: keyedDeaths },
  { name: 'tasks killed at instants', share: 0.1, run: tasksKilled },
  { name: 'killed at random', share: 0.1, run: killedAtRandom },
  { name: 'servers of a store killed at random', share: 0.1, run: serversKilled },
  { name: 'faults of a cluster', share: 0.1, run: faultsOf('unreplicated') },
  { name: 'faults of a cluster that replicates', share: 0.1, run: faultsOf('replicated') },
  { name: 'steps of a cluster', share: 0.1, isFinite: true, run: stepsOf('unreplicated') },
  { name: 'steps of a cluster that replicates', share: 0.1, isFinite: true, run: stepsOf('replicated') },
  { name: 'steps of decommissions', share: 0.1, isFinite: true, run: stepsOfDecommissions },
  { name: 'catalog against its model', share: 0.1, run: model },
  { name: 'rights against their model', share: 0.1, run: rights },
  { name: 'clients at once', share: 0.1, run: clientsAtOnce },
  { name: 'histories under kills', share: 0.1, run: histories },
  { name: 'with hostile principals', share: 0.1, run: measureHostile },
  { name: 'memory', share: 0.1, run: memory },
  { name: 'random SQL', share: 0.1, run: randomSql },
  { name: 'real sets of data', share: 0.1, isFinite: true, run: realSets },
  { name: 'star schema at scale 1', share: 0.1, isFinite: true, run: starSchema },
  { name: 'streams of the command line', share: 0, isFinite: true, run: commandStreams },
  { name: 'broken streams of the command line', share: 0, isFinite: true, run: brokenStreams },
  { name: 'sampled tests in full', share: 0, isFinite: true, run: testsInFull },
];

/** Steps in random order, with a new server after this many. */
async function killedAtSteps(seed: number, deadline: number, problems: string[]): Promise<string> {
  const random = new Random(seed);
  const steps = random.shuffled(allSteps(everything));
  const reach = new StepCounts();
  const struck = { server: 0, engine: 0 };
  const names = new Set<string>();
  let tried = 0;
  while (tried < steps.length && Date.now() < deadline) {
    const server = await ServerProcess.onEmptyDirectory();
    try {
      for (let n = 0; n < stepsEach && tried < steps.length && Date.now() < deadline; n++) {
        const step = steps[tried++] as (typeof steps)[0];
        if (reach.isBeyond(step)) continue;
        const wasReached = await killAtStep(server, step, String(tried)).catch((error: Error) => {
          throw new Error(`${describeStep(step)}: ${error.message}`);
        });
        reach.note(step, wasReached);
        if (wasReached) {
          struck[step.victim]++;
          names.add(`${step.scenario.name}: ${server.struck}`);
        }
      }
      const dataProblems = await checkDataDirectory(server);
      problems.push(...dataProblems);
      if (dataProblems.length === 0) await server.remove();
    } catch (error) {
      problems.push(`${(error as Error).message}; retained for inspection: ${server.dataDirectory}`);
    } finally {
      await server.kill();
    }
    reportProgress(`${tried} of ${steps.length} steps`, problems);
  }
  return `${struck.server} server kills, ${struck.engine} engine kills (${tried} of ${steps.length} steps tried or known to be none; ${names.size} steps of different names)`;
}

/** Printed early, so that a long run that is stopped has shown its results so far. */
function reportProgress(summary: string, problems: readonly string[]): void {
  const last = problems.length > 0 ? `, the last: ${problems.at(-1)}` : '';
  process.stdout.write(`${new Date().toISOString()} ${summary}, ${problems.length} wrong${last}\n`);
}

async function keyedDeaths(seed: number, deadline: number, problems: string[]): Promise<string> {
  const report = await runCells(allCells, new Random(seed), deadline);
  problems.push(...report.problems);
  return `${report.cells} of ${allCells.length} cells (kind of request, victim, moment), each with a kill in its window`;
}

/** Runs all of them, however long that takes. */
async function tasksKilled(seed: number, _deadline: number, problems: string[]): Promise<string> {
  const tasks = everything.filter(({ isTask }) => isTask);
  const { kills, answers, ...report } = await killAtInstants({ seed, instants: instantsMin, scenarios: tasks });
  problems.push(...report.problems.map((problem) => `seed ${seed}: ${problem}`));
  return `${kills.server} server kills, ${kills.engine} engine kills, under what was answered ${JSON.stringify(answers)}`;
}

async function killedAtRandom(seed: number, deadline: number, problems: string[]): Promise<string> {
  const kills = { server: 0, engine: 0, serverTwice: 0, none: 0 };
  const hasTime = () => Date.now() < deadline;
  let [acknowledged, uncertain, tasks, rows, readyMs, queryMs] = [0, 0, 0, 0, 0, 0];
  for (let n = 0; Date.now() < deadline && problems.length === 0; n++) {
    const roundSeed = new Random(seed).fork(n).seed;
    const report = await killRandomly({ seed: roundSeed, rounds: roundsEach, workers: 4, tablesEach: 4, hasTime });
    problems.push(...report.problems.map((problem) => `seed ${roundSeed}: ${problem}`));
    for (const key of Object.keys(kills) as (keyof typeof kills)[]) kills[key] += report.rounds[key];
    acknowledged += report.counts.acknowledged;
    uncertain += report.counts.unanswered + report.counts.failed;
    tasks += report.counts.tasks;
    rows += report.counts.rows;
    readyMs = Math.max(readyMs, report.readyMsMax);
    queryMs = Math.max(queryMs, report.firstQueryMsMax);
  }
  const killed = `${kills.server + 2 * kills.serverTwice} server kills (${kills.serverTwice} in recovery), ${kills.engine} engine kills, ${kills.none} stops`;
  const changes = `${acknowledged} changes and ${tasks} tasks acknowledged, ${uncertain} left uncertain, ${rows} rows`;
  return `${killed}; ${changes}; ready in ${Math.round(readyMs)} ms, first query in ${Math.round(queryMs)} ms at most`;
}

async function serversKilled(seed: number, deadline: number, problems: string[]): Promise<string> {
  if (missingPostgresql) return `nothing: ${missingPostgresql}`;
  const hasTime = () => Date.now() < deadline;
  let [kills, acknowledged, uncertain, repeated, tasks, rows] = [0, 0, 0, 0, 0, 0];
  for (let n = 0; hasTime() && problems.length === 0; n++) {
    const roundSeed = new Random(seed).fork(n).seed;
    const report = await killServersRandomly({
      seed: roundSeed,
      rounds: roundsEach,
      workers: 4,
      tablesEach: 3,
      hasTime,
    });
    problems.push(...report.problems.map((problem) => `seed ${roundSeed}: ${problem}`));
    kills += report.kills;
    acknowledged += report.counts.acknowledged;
    uncertain += report.counts.unanswered + report.counts.failed;
    repeated += report.counts.repeated;
    tasks += report.counts.tasks;
    rows += report.counts.rows;
    reportProgress(`seed ${roundSeed}: ${kills} server kills`, problems);
  }
  return `${kills} server kills; ${acknowledged} changes and ${tasks} tasks acknowledged, ${uncertain} refused or left uncertain, ${repeated} repeated with their keys, ${rows} rows`;
}

/** Each round is a new cluster; a round that ends early because of its time leaves the others what they need to replay. */
function faultsOf(kind: ClusterKind): Part['run'] {
  return (seed, deadline, problems, parallel) => clusterFaults(kind, { seed, deadline, problems, parallel });
}

function stepsOf(kind: ClusterKind): Part['run'] {
  return (seed, deadline, problems, parallel) => clusterSteps(kind, { seed, deadline, problems, parallel });
}

function stepsOfDecommissions(...[seed, deadline, problems, parallel]: Parameters<Part['run']>): Promise<string> {
  return decommissionSteps({ seed, deadline, problems, parallel });
}

async function model(seed: number, deadline: number): Promise<string> {
  const server = await start();
  try {
    const commands = await runCatalogModel(server, {
      seed,
      runs: 100_000,
      durationMs: deadline - Date.now(),
      warehouse: 'default',
      engine: duckdb,
    });
    return `${commands} commands`;
  } finally {
    await server.close();
  }
}

async function rights(seed: number, deadline: number): Promise<string> {
  const server = await start({ failedLoginsPerAddressMax: 1_000_000 });
  try {
    const questions = await runGrantsModel(server, { seed, runs: 100_000, durationMs: deadline - Date.now() });
    return `${questions} questions`;
  } finally {
    await server.close();
  }
}

async function clientsAtOnce(seed: number, deadline: number): Promise<string> {
  const server = await start();
  let [operations, rounds, batches, reads] = [0, 0, 0, 0];
  try {
    for (; Date.now() < deadline; rounds++) {
      const random = new Random(seed).fork(rounds);
      const level = random.pick(levels);
      operations += (await runConcurrently(server, { random, level, clients: 8, operationsEach: 60 })).operations;
      batches += (await moveRows(server, { random, inserters: 4, operationsEach: 60 })).inserted;
      reads += (await readRows(server, random, 60)).reads;
    }
    return `${rounds} rounds, ${operations} operations in an order, ${batches} batches of rows under changes, ${reads} reads of rows being inserted`;
  } finally {
    await server.close();
  }
}

async function histories(seed: number, deadline: number, problems: string[]): Promise<string> {
  const kills = { engine: 0, server: 0 };
  let [operations, repeats] = [0, 0];
  for (let n = 0; Date.now() < deadline && problems.length === 0; n++) {
    const roundRandom = new Random(seed).fork(n);
    const server = await ServerProcess.onEmptyDirectory();
    const endMs = Math.min(deadline, Date.now() + historyMs);
    const hasTime = () => Date.now() < endMs;
    const report = await runHistory(server, { random: roundRandom, clients: 6, hasTime, killEveryMs: 1500 });
    await server.kill();
    problems.push(...report.problems.map((problem) => `seed ${roundRandom.seed}: ${problem}`));
    if (report.problems.length === 0) await server.remove();
    operations += report.operations;
    repeats += report.resent;
    kills.engine += report.kills.engine;
    kills.server += report.kills.server;
  }
  return `${operations} operations in an order, ${repeats} sent again, ${kills.engine} engine kills, ${kills.server} server kills`;
}

async function measureHostile(_seed: number, deadline: number, problems: string[]): Promise<string> {
  const { problems: found, ...report } = await measureBesideHostile(deadline - Date.now());
  problems.push(...found);
  return JSON.stringify(report);
}

async function memory(_seed: number, deadline: number, problems: string[]): Promise<string> {
  const { problems: found, ...report } = await measureMemory(deadline - Date.now());
  problems.push(...found);
  return JSON.stringify(report);
}

async function randomSql(seed: number, deadline: number): Promise<string> {
  const server = await start();
  let [statements, restarts] = [0, 0];
  const codes: Record<string, number> = {};
  try {
    for (let n = 0; Date.now() < deadline; n++) {
      const report = await fuzzSql(server, new Random(seed).fork(n), statementsEach);
      statements += report.statements;
      restarts += report.restarts;
      for (const [code, count] of Object.entries(report.codes)) codes[code] = (codes[code] ?? 0) + count;
      for (const sql of report.fatal) process.stdout.write(`the engine went down at ${JSON.stringify(sql)}\n`);
    }
    return `${statements} statements, ${restarts} engine restarts, ${JSON.stringify(codes)}`;
  } finally {
    await server.close();
  }
}

async function realSets(seed: number, deadline: number, problems: string[]): Promise<string> {
  const { sets, loads, rows } = await loadRealSets(new Random(seed), deadline, problems);
  return `${sets} sets, ${loads} loads, ${rows} rows`;
}

/** Runs all of it, however long that takes. */
async function starSchema(): Promise<string> {
  if (missingRing) return `nothing: ${missingRing}`;
  const ring = await startRing(3);
  const server = await startProcess([`--cluster-hosts=${clusterHosts}`]);
  try {
    const ssb = await MovedSsb.load(server, ring, 1);
    const step = async (what: string, work: () => Promise<void>) => {
      const startMs = Date.now();
      await work();
      reportProgress(`${what}: ${Date.now() - startMs} ms, ${ssb.compared} results compared`, []);
    };
    await step('moved to shards', () => ssb.moveTo('shards'));
    await step('asked on shards', () => ssb.requireEqual());
    await step('asked with a lost shard', () => ssb.requireRefusedWithoutShard(2));
    await step('moved back', () => ssb.moveTo('default'));
    await step('moved to copies', () => ssb.moveTo('copies'));
    await step('asked with a lost copy', () => ssb.requireEqualWithoutCopy(1));
    return `${ssb.rowCount} rows moved from DuckDB to three shards, back, and to three copies; ${ssb.compared} results equal to those of DuckDB, with a shard and a copy killed`;
  } finally {
    await server.close();
    await ring.close();
  }
}

/** With `--all`: a gigabyte through pipes, however long that takes. */
async function commandStreams(seed: number, deadline: number, problems: string[]): Promise<string> {
  if (Number.isFinite(deadline)) return 'nothing: with --all only';
  const { transfers, sets, scrolled } = await streamThroughCommands(new Random(seed), problems);
  const text = ([name, { bytes, rows, seconds, commandMiB, serverMiB }]: [string, Transferred]) =>
    `${name} ${(bytes / 1e6).toFixed(0)} MB (${rows} rows) in ${seconds.toFixed(1)} s, at most ${commandMiB} MiB in the command and ${serverMiB} MiB in the server`;
  const terminal = scrolled
    ? `; ${scrolled.rows} rows in a terminal in ${scrolled.seconds} s, ${scrolled.beforeMiB} MiB before and at most ${scrolled.peakMiB} MiB`
    : '';
  return `${Object.entries(transfers).map(text).join('; ')}; ${sets} real sets there and back${terminal}`;
}

/** With `--all`: transfers of a gigabyte that end in the middle, however long that takes. */
async function brokenStreams(seed: number, deadline: number, problems: string[]): Promise<string> {
  if (Number.isFinite(deadline)) return 'nothing: with --all only';
  const log = (text: string) => process.stdout.write(`${new Date().toISOString()} ${text}\n`);
  const { ended, commandMiB, serverGrowthMiB } = await breakStreams(new Random(seed), brokenBytes, problems, log);
  return `${ended.join('; ')} (exit codes); at most ${commandMiB} MiB in a command, and ${serverGrowthMiB} MiB more in the server than before`;
}

/** With `--all`: runs all cases of the tests from which `npm test` takes a sample. */
async function testsInFull(seed: number, deadline: number, problems: string[]): Promise<string> {
  if (Number.isFinite(deadline)) return 'nothing: with --all only';
  const files = globSync('tests/**/*.test.ts').filter((file) => readFileSync(file, 'utf8').includes('/budget.ts'));
  const env = { ...process.env, TEST_BUDGET: 'all', TEST_SEED: String(seed), FAULTS_SEED: String(seed) };
  const child = spawn(process.execPath, ['scripts/test.ts', ...files], { env, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) problems.push('tests failed, named above');
  return `${files.length} files`;
}

interface RunOptions {
  readonly seed: number;
  readonly minutes: number;
  readonly parallel: number;
}

async function run(part: Part, { seed, minutes, parallel }: RunOptions): Promise<Outcome> {
  const startMs = Date.now();
  const problems: string[] = [];
  let done = '';
  try {
    done = await part.run(seed, startMs + minutes * 60_000, problems, parallel);
  } catch (error) {
    // The relevant finding of a random run is in the cause, after a long log.
    const { stack, cause } = error as Error;
    problems.push(`${String(stack).slice(0, 4000)}\n${cause instanceof Error ? cause.message : ''}`);
  }
  const outcome = { part: part.name, seconds: Math.round((Date.now() - startMs) / 1000), done, problems };
  process.stdout.write(`${outcome.part}, ${outcome.seconds} s: ${outcome.done}\n`);
  for (const problem of problems) process.stdout.write(`  WRONG: ${problem}\n`);
  return outcome;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string' },
      only: { type: 'string' },
      all: { type: 'boolean', default: false },
      parallel: { type: 'string', default: '1' },
    },
  });
  const seed = values.seed === undefined ? Date.now() >>> 0 : Number(values.seed) >>> 0;
  process.stdout.write(`seed ${seed}\n`);
  const only = values.only ?? '';
  const named = parts.filter(({ name }) => name === only);
  const chosen = named.length > 0 ? named : parts.filter(({ name }) => name.includes(only));
  const shares = chosen.reduce((sum, { share }) => sum + share, 0);
  const outcomes: Outcome[] = [];
  for (const part of chosen) {
    const share = (part.share / (shares || 1)) * Number(values.minutes);
    const minutes = values.all && part.isFinite ? Number.POSITIVE_INFINITY : share;
    outcomes.push(await run(part, { seed, minutes, parallel: Number(values.parallel) }));
  }
  process.stdout.write('\n| part | seconds | done | wrong |\n|---|---|---|---|\n');
  for (const { part, seconds, done, problems } of outcomes) {
    process.stdout.write(`| ${part} | ${seconds} | ${done} | ${problems.length} |\n`);
  }
  await closeExternalSystems();
  process.exit(outcomes.some(({ problems }) => problems.length > 0) ? 1 : 0);
}

await main();
