// Kills the server or its engine, or stops the server gracefully, at random moments during random changes, repeatedly on one data
// directory; checks everything after each.
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs } from '../deadline.ts';
import { pathOf } from '../faults/injection/api.ts';
import { ServerProcess } from '../faults/injection/server_process.ts';
import { storeEngineDifferences } from '../faults/scenarios/agreement.ts';
import { endOfTask, type InterruptedChange } from '../faults/scenarios/atomicity.ts';
import { Random } from '../random.ts';
import { type Counts, noCounts, Worker } from './worker.ts';

export interface KillOptions {
  readonly seed: number;
  readonly rounds: number;
  readonly workers: number;
  readonly tablesEach: number;
  /** After this many, others begin only if there is time left. */
  readonly atLeast?: number;
  readonly hasTime?: () => boolean;
}

type Victim = 'server' | 'engine' | 'serverTwice' | 'none';

export interface KillReport {
  readonly seed: number;
  readonly rounds: Record<Victim, number>;
  readonly counts: Counts;
  /** Milliseconds until the server is ready, and from then to the first response to a query. */
  readonly readyMsMax: number;
  readonly firstQueryMsMax: number;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

const tasksEndMs = deadlineMs(60_000);
const tasksKeptMax = 200;
const firstQueryMsMax = deadlineMs(60_000);

export async function killRandomly(options: KillOptions): Promise<KillReport> {
  const run = new KillRun(options, await ServerProcess.onEmptyDirectory());
  return run.all();
}

class KillRun {
  readonly #options: KillOptions;
  readonly #server: ServerProcess;
  readonly #random: Random;
  readonly #workers: Worker[];
  readonly #rounds: Record<Victim, number> = { server: 0, engine: 0, serverTwice: 0, none: 0 };
  readonly #problems: string[] = [];
  #firstQueryMsMax = 0;

  constructor(options: KillOptions, server: ServerProcess) {
    this.#options = options;
    this.#server = server;
    this.#random = new Random(options.seed);
    const workers = Array.from({ length: options.workers }, (_, i) => i);
    this.#workers = workers.map((i) => new Worker(i, this.#random.fork(i + 1), options.tablesEach));
  }

  async all(): Promise<KillReport> {
    const { rounds, seed, atLeast = 0, hasTime = () => true } = this.#options;
    try {
      for (const worker of this.#workers) await worker.begin(this.#server.api);
      for (let round = 0; round < rounds && (round < atLeast || hasTime()) && this.#isFine; round++)
        await this.#round();
      await this.#server.stop();
      if (this.#isFine) this.#problems.push(...(await storeEngineDifferences(this.#server.dataDirectory)));
    } catch (error) {
      this.#problems.push(String((error as Error).stack));
      await this.#server.kill();
    }
    const problems = [...this.#problems, ...this.#workers.flatMap((worker) => worker.problems)];
    if (problems.length === 0) await this.#server.remove();
    else problems.push(`retained for inspection: ${this.#server.dataDirectory}`);
    const counts = noCounts();
    for (const worker of this.#workers) {
      for (const key of Object.keys(counts) as (keyof Counts)[]) counts[key] += worker.counts[key];
    }
    const readyMsMax = Math.max(...this.#server.startMs);
    return { seed, rounds: this.#rounds, counts, readyMsMax, firstQueryMsMax: this.#firstQueryMsMax, problems };
  }

  get #isFine(): boolean {
    return this.#problems.length === 0 && this.#workers.every((worker) => worker.problems.length === 0);
  }

  async #round(): Promise<void> {
    const draw = this.#random.next();
    const victim: Victim = draw < 0.5 ? 'server' : draw < 0.75 ? 'engine' : draw < 0.9 ? 'serverTwice' : 'none';
    let halted = false;
    const { api } = this.#server;
    const runWorker = async (worker: Worker): Promise<void> => {
      while (!halted && (await worker.step(api))) {
        // continues with the next change
      }
    };
    const working = this.#workers.map((worker) =>
      runWorker(worker).catch((error: Error) => void this.#problems.push(String(error.stack))),
    );
    await pause(20 + this.#random.below(1200));
    this.#rounds[victim]++;
    if (victim === 'engine') {
      this.#server.killEngine();
      await pause(this.#random.below(300));
      halted = true;
      await Promise.all(working);
    } else {
      halted = victim === 'none';
      await (victim === 'none' ? this.#server.stop() : this.#server.kill());
      await Promise.all(working);
      await this.#server.start();
      if (victim === 'serverTwice') await this.#killInRecovery();
    }
    await this.#look();
  }

  async #killInRecovery(): Promise<void> {
    const recovering = this.#server.recover().catch(() => {});
    await pause(this.#random.below(150));
    await this.#server.kill();
    await recovering;
    await this.#server.start();
  }

  async #look(): Promise<void> {
    const { api } = this.#server;
    const before = performance.now();
    // A 503 asks to retry later. The report shows how much later.
    for (;;) {
      const answer = await api.post(pathOf('catalogs', 'default', 'query'), { sql: 'SELECT 42' });
      const ms = performance.now() - before;
      this.#firstQueryMsMax = Math.max(this.#firstQueryMsMax, ms);
      if (answer.status === 200) break;
      if (answer.status !== 503 || ms > firstQueryMsMax) {
        this.#problems.push(`the first query: ${answer.status} ${answer.code} ${answer.message}`);
        return;
      }
      await pause(100);
    }
    await this.#server.noOrphans();
    await this.#server.recover();
    const tasks = await api.endOfTasks(tasksEndMs);
    await this.#server.recover();
    const ends = new Map(
      tasks.map((task) => [String(task.taskId), endOfTask(task) as NonNullable<InterruptedChange['task']>]),
    );
    for (const worker of this.#workers) await worker.checkTables(api, ends);
    if (tasks.length > tasksKeptMax) {
      for (const task of tasks) await api.delete(pathOf('tasks', String(task.taskId)));
    }
  }
}
