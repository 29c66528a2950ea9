// How long a warehouse is unavailable when its engine is killed: with a spare process that takes over, and without one, in turns.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { heldBytes } from './harness/processes.ts';
import { type Bench, type BenchOptions, type Compared, compare, interleaved, type Measure } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const database = 'killed';
const secondsMax = 0.3;
const spareMegabytesMax = 80;
const spareWaitMs = 120_000;
/** Size of the log of the large catalog when its engine is killed; DuckDB itself writes logs of 16 MB into their files. */
const logBytes = 10e6;
/** About a gigabyte in the file. */
const largeRows = 11_000_000;
const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'name', type: 'STRING' },
];

/** Kills of one server: more would be delayed by the pause before the start of processes that end repeatedly. */
const killsMax = 2;

interface Setting {
  readonly what: string;
  /** The number of servers, each killed that often. */
  readonly rounds: number;
  readonly isSmall: boolean;
  /** Called once for each server. */
  readonly fill: (server: TabulariumServer) => Promise<void>;
  /** Called before each kill. */
  readonly write: (server: TabulariumServer, dataDirectory: string) => Promise<void>;
}

interface Pids {
  readonly serving: number;
  readonly spare: number | undefined;
}

/** A server and, read from its log, the processes of its engine. */
class Watched {
  readonly server: TabulariumServer;
  readonly dataDirectory: string;
  readonly #log: string;
  /** Where the log of this server begins. */
  readonly #from: number;
  readonly #hasSpare: boolean;

  private constructor(server: TabulariumServer, dataDirectory: string, hasSpare: boolean, from: number) {
    this.#from = from;
    this.server = server;
    this.dataDirectory = dataDirectory;
    this.#log = `${dataDirectory}.log`;
    this.#hasSpare = hasSpare;
  }

  static async start(dataDirectory: string, hasSpare: boolean, fill?: Setting['fill']): Promise<Watched> {
    const flags = ['--log-level', 'debug', `--spare-engine=${hasSpare}`];
    const from = statSync(`${dataDirectory}.log`, { throwIfNoEntry: false })?.size ?? 0;
    const server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
    if (fill) {
      await server.createDatabase(database);
      await server.createTable(database, 't', { columns });
      await fill(server);
    }
    return new Watched(server, dataDirectory, hasSpare, from);
  }

  /** Waits until the engine runs and, if there should be one, an unused spare is ready. */
  async pids(): Promise<Pids> {
    for (const deadline = performance.now() + spareWaitMs; ; await sleep(50)) {
      const serving = this.#pidOf('engineStarted');
      const spare = this.#hasSpare ? this.#pidOf('engineSpareReady') : undefined;
      if (serving !== undefined && (!this.#hasSpare || (spare !== undefined && spare !== serving)))
        return { serving, spare };
      if (performance.now() > deadline) throw new Error(`no spare engine; the log is ${this.#log}`);
    }
  }

  /** Milliseconds from the kill until a SELECT of a table succeeds. */
  async answeredAfterKill(): Promise<number> {
    const { serving } = await this.pids();
    const began = performance.now();
    process.kill(serving, 'SIGKILL');
    while (!(await this.#isAnswered())) await sleep(5);
    return performance.now() - began;
  }

  async #isAnswered(): Promise<boolean> {
    const response = await fetch(new URL(`/api/v2/databases/${database}/query`, this.server.url), {
      method: 'POST',
      headers: { ...this.server.authorization, 'Content-Type': 'application/json' },
      body: JSON.stringify({ sql: 'SELECT name FROM t LIMIT 1' }),
    });
    const text = await response.text();
    if (response.status !== 200 && response.status !== 503) throw new Error(text);
    return response.status === 200;
  }

  /** Of the last such line. */
  #pidOf(event: string): number | undefined {
    const lines = readFileSync(this.#log, 'utf8').slice(this.#from).split('\n');
    const line = lines.findLast((candidate) => candidate.includes(`"msg":"${event}"`));
    return line === undefined ? undefined : (JSON.parse(line) as { pid: number }).pid;
  }
}

const insert = (server: TabulariumServer, rows: number) =>
  server.query(database, `INSERT INTO t SELECT range, md5(range::VARCHAR) || md5('x' || range) FROM range(${rows})`);

/** Of the largest log among the catalogs. */
function logOf(dataDirectory: string): number {
  const directory = join(dataDirectory, 'catalogs');
  const logs = readdirSync(directory).filter((name) => name.endsWith('.wal'));
  return Math.max(0, ...logs.map((name) => statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0));
}

function settings(quick: boolean): Setting[] {
  const one = async (server: TabulariumServer) => void (await insert(server, 10));
  const many = async (server: TabulariumServer) => {
    for (let n = 1; n < 20; n++) {
      await server.client.catalogs.create({ name: `c${n}` });
      const { databases } = server.client.catalogs(`c${n}`);
      await databases.create({ name: 'd' });
      for (let t = 0; t < 5; t++)
        await databases('d')
          .tables.create({ name: `t${t}`, columns })
          .done();
    }
  };
  const grown = async (server: TabulariumServer, dataDirectory: string) => {
    while (logOf(dataDirectory) < (quick ? 1e6 : logBytes)) await insert(server, 20_000);
  };
  return [
    { what: 'one small catalog', rounds: quick ? 1 : 4, isSmall: true, fill: one, write: one },
    { what: '20 small catalogs', rounds: quick ? 1 : 4, isSmall: true, fill: many, write: one },
    {
      what: `one catalog of 1 GB with a log of ${logBytes / 1e6} MB`,
      rounds: quick ? 1 : 2,
      isSmall: false,
      fill: async (server) => void (await insert(server, quick ? 100_000 : largeRows)),
      write: grown,
    },
  ];
}

/** Two servers, killed in turns. */
async function round(
  { fill, write }: Setting,
  directory: (kind: string) => string,
  isFirst: boolean,
): Promise<Compared<number, number> & { readonly held: ReturnType<typeof heldBytes> }> {
  const filling = isFirst ? fill : undefined;
  const spare = await Watched.start(directory('spare'), true, filling);
  const none = await Watched.start(directory('none'), false, filling);
  const killed = async (watched: Watched) => {
    await write(watched.server, watched.dataDirectory);
    return watched.answeredAfterKill();
  };
  try {
    const compared = await interleaved(
      killsMax,
      () => killed(spare),
      () => killed(none),
    );
    return { ...compared, held: heldBytes((await spare.pids()).spare as number) };
  } finally {
    await Promise.all([spare.server.stop(), none.server.stop()]);
  }
}

async function measured(setting: Setting, { workDirectory, say }: BenchOptions, n: number): Promise<Measure[]> {
  const { what, rounds, isSmall } = setting;
  const withSpare: number[] = [];
  const baseline: number[] = [];
  let held: ReturnType<typeof heldBytes>;
  for (let i = 0; i < rounds; i++) {
    const one = await round(setting, (kind) => join(workDirectory, `${kind}_${n}`), i === 0);
    withSpare.push(...one.service);
    baseline.push(...one.baseline);
    held = one.held;
  }
  const measure = compare(
    { service: withSpare, baseline },
    {
      what: `${what}: from the kill to the first answer`,
      unit: 'ms',
      of: (ms) => ms,
      ofBaseline: (ms) => ms,
      baseline: 'without a spare',
    },
  );
  say(`  ${measure.what}: ${measure.value.toFixed(0)} ms, without a spare ${measure.baseline?.value.toFixed(0)} ms`);
  say(`    ${[withSpare, baseline].map((all) => all.map((ms) => ms.toFixed(0)).join(' ')).join(' | ')}`);
  const target = { text: `< ${secondsMax * 1000}`, met: measure.value < secondsMax * 1000 };
  return [isSmall ? { ...measure, target } : measure, ...(n === 0 && held !== undefined ? memoryOf(held) : [])];
}

function memoryOf({ own, proportional }: { readonly own: number; readonly proportional: number }): Measure[] {
  const target = { text: `≤ ${spareMegabytesMax}`, met: proportional / 1e6 <= spareMegabytesMax };
  return [
    { what: 'memory of the spare, shared pages by their share (PSS)', value: proportional / 1e6, unit: 'MB', target },
    { what: '- of this its own', value: own / 1e6, unit: 'MB' },
  ];
}

export const bench: Bench = {
  name: 'takeover',
  claim: `A warehouse whose engine is killed answers again in less than ${secondsMax} s where its catalogs are small.`,
  async run(options) {
    const measures: Measure[] = [];
    for (const [n, setting] of settings(options.quick).entries())
      measures.push(...(await measured(setting, options, n)));
    return {
      measures,
      notes: [
        'From SIGKILL to the process that serves until a `SELECT` of a row is answered through REST; sent at once, and again 5 ms after a 503.',
        'Both servers run beside each other and are killed by turns, twice each, one row or the log of the setting written before each kill. The second start of the one without a spare waits 100 ms.',
        'The spare is ready when its turn comes: it is prepared a second after a statement of the process that took over.',
      ],
    };
  },
};
