// The cost of an idle server: its memory, without and with its engine's processes, and its time to be ready.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { filledDatabase, fillStore, tableName } from './harness/filled_store.ts';
import { heldBytes, residentBytes } from './harness/processes.ts';
import { type Bench, type BenchOptions, type Measure, median } from './harness/report.ts';
import { TabulariumServer, timed } from './harness/server.ts';

const residentMegabytesMax = 115;
/** For each process except the one that runs statements. */
const otherProcessMegabytesMax = 80;
const readySecondsMax = { empty: 0.4, filled: 1 } as const;

async function memory(dataDirectory: string, settleMs: number): Promise<Measure[]> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    await sleep(settleMs);
    const alone = residentBytes(server.pid);
    if (alone === undefined) return [];
    await server.createDatabase('woken');
    await server.query('woken', 'SELECT 1');
    await sleep(settleMs);
    const awake = residentBytes(server.pid) as number;
    const engines = server
      .enginePids()
      .flatMap((pid) => heldBytes(pid) ?? [])
      .toSorted((a, b) => b.own - a.own);
    const together = engines.reduce((total, { proportional }) => total + proportional, 0);
    const spareBytes = Math.max(0, ...engines.slice(1).map(({ own }) => own));
    const target = { text: `≤ ${residentMegabytesMax}`, met: alone / 1e6 <= residentMegabytesMax };
    return [
      { what: 'resident memory, idle, engine asleep', value: alone / 1e6, unit: 'MB', target },
      { what: 'resident memory after a first statement: the server', value: awake / 1e6, unit: 'MB' },
      { what: `- its engine's ${engines.length} processes together`, value: together / 1e6, unit: 'MB' },
      {
        what: '- of these, the larger of those that bind statements or wait as a spare',
        value: spareBytes / 1e6,
        unit: 'MB',
        target: { text: `≤ ${otherProcessMegabytesMax}`, met: spareBytes / 1e6 <= otherProcessMegabytesMax },
      },
    ];
  } finally {
    await server.stop();
  }
}

async function ready(times: number, dataDirectory: (time: number) => string): Promise<number> {
  const ms: number[] = [];
  for (let time = 0; time < times; time++) {
    const server = await TabulariumServer.start({ dataDirectory: dataDirectory(time), pinned: false });
    ms.push(server.readyMs);
    await server.stop();
  }
  return median(ms) / 1000;
}

async function firstAnswers(dataDirectory: string): Promise<Measure[]> {
  const server = await TabulariumServer.start({ dataDirectory, pinned: false });
  try {
    const { ms } = await timed(() => server.query(filledDatabase, `SELECT count(*) FROM ${tableName(0)}`));
    return [{ what: 'first statement after that start, which wakes the engine', value: ms, unit: 'ms' }];
  } finally {
    await server.stop();
  }
}

async function measure({ quick, workDirectory, print }: BenchOptions): Promise<Measure[]> {
  const times = quick ? 2 : 9;
  const tables = quick ? 500 : 20_000;
  const seconds = (what: string, value: number, max: number): Measure => {
    print(`  ${what}: ${value.toFixed(2)} s`);
    return { what, value, unit: 's', target: { text: `≤ ${max}`, met: value <= max } };
  };
  const filled = join(workDirectory, 'filled');
  await fillStore(filled, tables, { inEngine: true });
  const measures = await memory(join(workDirectory, 'memory'), quick ? 500 : 5000);
  for (const { what, value } of measures) print(`  ${what}: ${value.toFixed(0)} MB`);
  const empty = await ready(times, (time) => join(workDirectory, `empty_${time}`));
  measures.push(seconds('ready, empty directory', empty, readySecondsMax.empty));
  const filledAgain = await ready(times, () => filled);
  measures.push(
    seconds(`ready, ${tables.toLocaleString('en-US')} tables in store and engine`, filledAgain, readySecondsMax.filled),
  );
  return [...measures, ...(await firstAnswers(filled))];
}

export const bench: Bench = {
  name: 'idle',
  claim: `An idle server: at most ${residentMegabytesMax} MB resident, ready in at most ${readySecondsMax.empty} s on an empty directory and ${readySecondsMax.filled} s with 20,000 tables.`,
  run: async (options) => ({
    measures: await measure(options),
    notes: [
      'Resident is VmRSS, which includes the pages of the Node.js and DuckDB program files that are in use.',
      'Ready: from the start of the process until it reports that it is ready, Node.js and the reading of the TypeScript sources included.',
      "Of the engine's processes together, pages that several share are counted once (Pss); of one, those that it shares with none.",
      'An engine starts with the first statement and is suspended after 10 idle minutes by default.',
    ],
  }),
};
