// Kills one of two servers on a PostgreSQL store, or both, at random moments, repeatedly, while clients send random changes of the tables
// in each server's warehouse, and in one of an engine that both reach, through either server, also while the other one is down; checks
// everything after each. Changes on the common engine have idempotency keys and are repeated until one server answers for certain.
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs, eventually } from '../deadline.ts';
import { type EngineServer, startEngineServer } from '../engines/sqlite/sqlite.ts';
import { Api } from '../faults/injection/api.ts';
import { endOfTask, type InterruptedChange } from '../faults/scenarios/atomicity.ts';
import { Random } from '../random.ts';
import type { ServerProcess } from '../server.ts';
import { kill, newPlaces, type Places } from '../servers/two_servers.ts';
import type { KillOptions } from './kills.ts';
import { type Counts, type Numbers, noCounts, Worker, type WorkerPlace } from './worker.ts';

export interface ServerKillReport {
  readonly seed: number;
  readonly kills: number;
  readonly counts: Counts;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

const names = ['one', 'two'] as const;
type Name = (typeof names)[number];

/** What runs of a server: it is replaced after each kill. */
interface Running {
  readonly server: ServerProcess;
  readonly api: Api;
}

const victims: readonly (readonly Name[])[] = [['one'], ['two'], ['one', 'two']];
/** The catalog `far` is in a warehouse of the second server, and `common` in one of the engine that both reach. */
const warehouses = { default: 'default', far: 'second', common: 'shared' };
const numbersInSqlite = (count: number): Numbers => ({
  clause: `WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < ${count - 1})`,
  source: 's',
});
const settledMs = 60_000;
const tasksEndMs = deadlineMs(60_000);
const tasksKeptMax = 100;
const flags = ['--spare-engine=false', '--log-level=silent'];

export async function killServersRandomly(options: KillOptions): Promise<ServerKillReport> {
  const engine = await startEngineServer();
  const places = await newPlaces(engine.port);
  const run = new ServerKillRun(options, places);
  try {
    return await run.all();
  } finally {
    await run.stop();
    places.remove();
    await stopEngine(engine);
  }
}

async function stopEngine({ child }: EngineServer): Promise<void> {
  const exited = once(child, 'exit');
  child.ref();
  child.kill('SIGKILL');
  await exited;
}

class ServerKillRun {
  readonly #options: KillOptions;
  readonly #places: Places;
  readonly #random: Random;
  readonly #workers: Worker[];
  readonly #loadDirectory: string;
  readonly #problems: string[] = [];
  readonly #running = new Map<Name, Running>();
  #kills = 0;

  constructor(options: KillOptions, places: Places) {
    this.#options = options;
    this.#places = places;
    this.#random = new Random(options.seed);
    this.#loadDirectory = join(places.directory, 'loads');
    mkdirSync(this.#loadDirectory);
    const repeats = this.#random.fork(0);
    const common: WorkerPlace = {
      catalog: 'common',
      warehouse: 'shared',
      anyServer: () => this.#api(repeats.pick(names)),
      loadDirectory: this.#loadDirectory,
      numbers: numbersInSqlite,
    };
    const placesOfTables: readonly WorkerPlace[] = [{}, common, { catalog: 'far', warehouse: 'second' }, common];
    this.#workers = Array.from({ length: options.workers }, (_, i) => {
      const place = placesOfTables[i % placesOfTables.length];
      return new Worker(i, this.#random.fork(i + 1), options.tablesEach, place);
    });
  }

  async all(): Promise<ServerKillReport> {
    const { rounds, seed, atLeast = 0, hasTime = () => true } = this.#options;
    try {
      // The first server has the default warehouse.
      for (const name of names) await this.#start(name);
      const { client } = this.#api('two');
      await client.warehouses.create({ name: 'second', threads: 2 });
      await client.catalogs.create({ name: 'far', warehouse: 'second' });
      await client.warehouses.create({ name: 'shared', engine: 'sqlite' });
      await client.catalogs.create({ name: 'common', warehouse: 'shared' });
      await this.#settled();
      for (const worker of this.#workers) await worker.begin(this.#api('one'));
      for (let n = 0; n < rounds && (n < atLeast || hasTime()) && this.#isFine; n++) await this.#round();
    } catch (error) {
      this.#problems.push(String((error as Error).stack));
    }
    const counts = noCounts();
    for (const worker of this.#workers)
      for (const key of Object.keys(counts) as (keyof Counts)[]) counts[key] += worker.counts[key];
    const problems = [...this.#problems, ...this.#workers.flatMap((worker) => worker.problems)];
    return { seed, kills: this.#kills, counts, problems };
  }

  async stop(): Promise<void> {
    for (const { server, api } of this.#running.values()) {
      api.close();
      await server.close();
    }
  }

  get #isFine(): boolean {
    return this.#problems.length === 0 && this.#workers.every((worker) => worker.problems.length === 0);
  }

  #api(name: Name): Api {
    return (this.#running.get(name) as Running).api;
  }

  async #start(name: Name): Promise<void> {
    const server = await this.#places[name].start([...flags, `--load-directories=${this.#loadDirectory}`]);
    this.#running.get(name)?.api.close();
    this.#running.set(name, { server, api: new Api(server.url, server.token) });
  }

  async #round(): Promise<void> {
    const killed = this.#random.pick(victims);
    let halted = false;
    const runWorker = async (worker: Worker, random: Random): Promise<void> => {
      while (!halted) {
        const { failed, unanswered } = worker.counts;
        await worker.step(this.#api(random.pick(names)));
        // A server that is down answers at once.
        if (worker.counts.failed + worker.counts.unanswered > failed + unanswered) await pause(20);
        else await pause(0);
      }
    };
    const fork = this.#random.fork(this.#kills + 1000);
    const working = this.#workers.map((worker, i) =>
      runWorker(worker, fork.fork(i)).catch((error: Error) => void this.#problems.push(String(error.stack))),
    );
    await pause(20 + this.#random.below(1200));
    for (const name of killed) {
      await kill((this.#running.get(name) as Running).server);
      this.#kills++;
      if (this.#random.chance(0.5)) await pause(this.#random.below(300));
    }
    for (const name of this.#random.shuffled(killed)) await this.#start(name);
    await pause(this.#random.below(200));
    halted = true;
    await Promise.all(working);
    await this.#look();
  }

  /** Until both servers use both warehouses, and no change is open. */
  async #settled(): Promise<void> {
    for (const name of names)
      for (const [catalog, warehouse] of Object.entries(warehouses))
        await eventually(
          `the catalog ${catalog} is used through the server ${name}`,
          async () => {
            const answer = await this.#api(name).post(`/api/v2/catalogs/${catalog}/query`, { sql: 'SELECT 42' });
            const { result } = await this.#api(name).get(`/api/v2/warehouses/${warehouse}`);
            return answer.status === 200 && result.openChanges === 0;
          },
          settledMs,
        );
  }

  async #look(): Promise<void> {
    await this.#settled();
    const api = this.#api(this.#random.pick(names));
    const tasks = await api.endOfTasks(tasksEndMs);
    await this.#settled();
    const ends = new Map(
      tasks.map((task) => [String(task.taskId), endOfTask(task) as NonNullable<InterruptedChange['task']>]),
    );
    for (const worker of this.#workers) await worker.checkTables(api, ends);
    if (tasks.length > tasksKeptMax) for (const task of tasks) await api.delete(`/api/v2/tasks/${task.taskId}`);
  }
}
