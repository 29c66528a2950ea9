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
class WatchedServer {
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

  static async start(dataDirectory: string, hasSpare: boolean, fill?: Setting['fill']): Promise<WatchedServer> {
    const flags = ['--log-level', 'debug', `--spare-engine=${hasSpare}`];
    const from = statSync(`${dataDirectory}.log`, { throwIfNoEntry: false })?.size ?? 0;
    const server = await TabulariumServer.start({ dataDirectory, pinned: false, flags });
    if (fill) {
      await server.createDatabase(database);
      await server.createTable(database, 't', { columns });
      await fill(server);
    }
    return new WatchedServer(server, dataDirectory, hasSpare, from);
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
    const startMs = performance.now();
    process.kill(serving, 'SIGKILL');
    while (!(await this.#isAnswered())) await sleep(5);
    return performance.now() - startMs;
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
  const insertOneRow = async (server: TabulariumServer) => void (await insert(server, 10));
  const insertManyRows = async (server: TabulariumServer) => {
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
  const growFile = async (server: TabulariumServer, dataDirectory: string) => {
    while (logOf(dataDirectory) < (quick ? 1e6 : logBytes)) await insert(server, 20_000);
  };
  return [
    { what: 'one small catalog', rounds: quick ? 1 : 4, isSmall: true, fill: insertOneRow, write: insertOneRow },
    { what: '20 small catalogs', rounds: quick ? 1 : 4, isSmall: true, fill: insertManyRows, write: insertOneRow },
    {
      what: `one catalog of 1 GB with a log of ${logBytes / 1e6} MB`,
      rounds: quick ? 1 : 2,
      isSmall: false,
      fill: async (server) => void (await insert(server, quick ? 100_000 : largeRows)),
      write: growFile,
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
  const spare = await WatchedServer.start(directory('spare'), true, filling);
  const withoutSpare = await WatchedServer.start(directory('none'), false, filling);
  const killed = async (watched: WatchedServer) => {
    await write(watched.server, watched.dataDirectory);
    return watched.answeredAfterKill();
  };
  try {
    const compared = await interleaved(
      killsMax,
      () => killed(spare),
      () => killed(withoutSpare),
    );
    return { ...compared, held: heldBytes((await spare.pids()).spare as number) };
  } finally {
    await Promise.all([spare.server.stop(), withoutSpare.server.stop()]);
  }
}

async function measureSetting(setting: Setting, { workDirectory, print }: BenchOptions, n: number): Promise<Measure[]> {
  const { what, rounds, isSmall } = setting;
  const withSpare: number[] = [];
  const baseline: number[] = [];
  let memory: ReturnType<typeof heldBytes>;
  for (let i = 0; i < rounds; i++) {
    const measuredRound = await round(setting, (kind) => join(workDirectory, `${kind}_${n}`), i === 0);
    withSpare.push(...measuredRound.service);
    baseline.push(...measuredRound.baseline);
    memory = measuredRound.held;
  }
  const measure = compare(
    { service: withSpare, baseline },
    {
      what: `${what}: from the kill to the first answer`,
      unit: 'ms',
      serviceValue: (ms) => ms,
      baselineValue: (ms) => ms,
      baseline: 'without a spare',
    },
  );
  print(`  ${measure.what}: ${measure.value.toFixed(0)} ms, without a spare ${measure.baseline?.value.toFixed(0)} ms`);
  print(`    ${[withSpare, baseline].map((all) => all.map((ms) => ms.toFixed(0)).join(' ')).join(' | ')}`);
  const target = { text: `< ${secondsMax * 1000}`, met: measure.value < secondsMax * 1000 };
  return [isSmall ? { ...measure, target } : measure, ...(n === 0 && memory !== undefined ? memoryOf(memory) : [])];
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
      measures.push(...(await measureSetting(setting, options, n)));
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
