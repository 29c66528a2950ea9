// `npm run bench`: every benchmark except `peers`, which installs another server, `several_servers` where PostgreSQL and those of ClickHouse where
// it is not installed, or those named; `--against DIRECTORY` compares this checkout with another one; `--quick` is a small sample that shows that they run.
// Results are written to bench/results/, except those of --quick. A missed target is shown, but is not a failure; only a benchmark that
// does not run fails.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { missingRing } from '../tests/engines/clickhouse/ring/ring.ts';
import { missingPostgresql } from '../tests/postgresql.ts';
import { bench as access } from './access.ts';
import { benchAgainst } from './against.ts';
import { bench as backup } from './backup.ts';
import { bench as clickhouse } from './clickhouse.ts';
import { bench as clickhouseLoad } from './clickhouse_load.ts';
import { bench as consolePages } from './console.ts';
import { bench as createTable } from './create_table.ts';
import { bench as exportFiles } from './export.ts';
import { bench as getTable } from './get_table.ts';
import { killAll } from './harness/processes.ts';
import { type Bench, type BenchResult, keep, keepSummary, machineFacts, page } from './harness/report.ts';
import { bench as idle } from './idle.ts';
import { bench as insertRows } from './insert_rows.ts';
import { bench as listTables } from './list_tables.ts';
import { bench as load } from './load.ts';
import { bench as move } from './move.ts';
import { bench as overload } from './overload.ts';
import { bench as peers } from './peers.ts';
import { bench as pointQuery } from './point_query.ts';
import { bench as resultPages } from './result_pages.ts';
import { bench as severalServers } from './several_servers.ts';
import { bench as ssb } from './ssb.ts';
import { bench as takeover } from './takeover.ts';
import { bench as tasks } from './tasks.ts';
import { bench as uploads } from './uploads.ts';

export const benches: readonly Bench[] = [
  getTable,
  access,
  listTables,
  createTable,
  pointQuery,
  resultPages,
  insertRows,
  overload,
  uploads,
  load,
  clickhouseLoad,
  exportFiles,
  tasks,
  severalServers,
  ssb,
  clickhouse,
  move,
  backup,
  idle,
  takeover,
  consolePages,
  peers,
];

/** In the checkout, next to the server's own data: on a real disk, so that flushes have their real cost. */
const workParent = join(import.meta.dirname, '..', 'data');

async function runOne(bench: Bench, quick: boolean): Promise<BenchResult> {
  await mkdir(workParent, { recursive: true });
  const workDirectory = await mkdtemp(join(workParent, `bench-${bench.name}-`));
  const printLine = (line: string) => void process.stdout.write(`${line}\n`);
  const startMs = performance.now();
  printLine(`${bench.name} ...`);
  try {
    const { measures, notes } = await bench.run({ quick, workDirectory, print: printLine });
    printLine(`  ${((performance.now() - startMs) / 1000).toFixed(0)} s`);
    return {
      name: bench.name,
      arguments: bench.arguments ?? bench.name,
      claim: bench.claim,
      machine: machineFacts(),
      measures,
      notes,
    };
  } finally {
    killAll();
    await rm(workDirectory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The benchmarks that the arguments name; all if they name none. */
function benchesNamed(names: readonly string[]): readonly Bench[] {
  const [first, directory] = names;
  if (first === '--against') {
    if (directory === undefined)
      throw new Error('--against takes the directory of another checkout, in which `npm ci` was run');
    return [benchAgainst(directory)];
  }
  const unknown = names.filter((name) => !benches.some((bench) => bench.name === name));
  if (unknown.length > 0) {
    const names = benches.map((bench) => bench.name).join(', ');
    throw new Error(
      `there is no benchmark ${unknown.join(', ')}; there are ${names}; and the flags --quick and --against DIRECTORY`,
    );
  }
  const left: readonly Bench[] = [
    peers,
    ...(missingPostgresql ? [severalServers] : []),
    ...(missingRing ? [clickhouse, clickhouseLoad, move, backup] : []),
  ];
  return names.length === 0
    ? benches.filter((bench) => !left.includes(bench))
    : benches.filter(({ name }) => names.includes(name));
}

async function main(args: readonly string[]): Promise<void> {
  const quick = args.includes('--quick');
  for (const bench of benchesNamed(args.filter((arg) => arg !== '--quick'))) {
    try {
      const result = await runOne(bench, quick);
      process.stdout.write(`\n${page(result)}\n`);
      if (!quick) await keep(result);
    } catch (error) {
      // The others are measured nevertheless.
      process.stderr.write(`${bench.name} failed: ${(error as Error).stack ?? String(error)}\n`);
      process.exitCode = 1;
    }
  }
  if (!quick) await keepSummary(benches.map((bench) => bench.name));
}

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    killAll();
    process.exit(1);
  });
}
await main(process.argv.slice(2));
