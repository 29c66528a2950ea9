// Faults at random instants, one after the other, while clients read and change tables of both warehouses through both servers. After each fault
// both servers work again within a deadline; then everything is compared with what was acknowledged. The same seed gives the same faults.
import { setTimeout as pause } from 'node:timers/promises';
import { deadlineMs, eventually } from '../../deadline.ts';
import { Random } from '../../random.ts';
import { type Counts, type Numbers, noCounts, Worker, type WorkerPlace } from '../../soak/worker.ts';
import { endOfTask, type InterruptedChange } from '../scenarios/atomicity.ts';
import { BackupTaker } from './backup_taker.ts';
import { clearedMs, type PatientApi } from './checked_api.ts';
import { type ClusterKind, type ClusterServer, type ClusterWorld, startCluster } from './cluster_world.ts';
import { Decommissioner, noDecommissions } from './decommissioner.ts';
import { hold, randomFault } from './faults.ts';
import { Mover } from './mover.ts';
import { nodeDifferences, readOnlyReplicas } from './node_contents.ts';
import { noProbes, ProbedTables, Prober } from './prober.ts';

export interface FaultRunOptions {
  readonly seed: number;
  /** By default nodes that do not replicate. Those that do are decommissioned and return, too. */
  readonly kind?: ClusterKind;
  readonly faults: number;
  /** After this many, others begin only if there is time left. */
  readonly atLeast?: number;
  readonly hasTime?: () => boolean;
  /** Part of the names of the faults; by default any. */
  readonly only?: string;
  readonly log?: (text: string) => void;
}

export interface FaultRunReport {
  readonly seed: number;
  readonly faults: number;
  /** How often each was done. */
  readonly byName: Readonly<Record<string, number>>;
  readonly counts: Counts;
  readonly probes: Prober['counts'] & { readonly moves: number; readonly backups: number };
  readonly decommissions: Decommissioner['counts'];
  /** From the end of a fault until everything worked. */
  readonly clearedMsMax: number;
  /** Empty if nothing was wrong. */
  readonly problems: readonly string[];
}

/** A wait that takes long shows what for. */
const sayMs = 10_000;
const settledMs = 60_000;
const tasksEndMs = deadlineMs(60_000);
const tasksKeptMax = 100;
const workersEach = 2;
const tablesEach = 2;
const refusedPauseMs = 20;

const numbersInClickhouse = (count: number): Numbers => ({
  clause: '',
  source: `(SELECT number AS i FROM numbers(${count})) AS s`,
});

export async function runRandomFaults(options: FaultRunOptions): Promise<FaultRunReport> {
  const world = await startCluster({ kind: options.kind });
  try {
    return await new FaultRun(options, world).all();
  } finally {
    await world.close();
  }
}

class FaultRun {
  readonly #options: FaultRunOptions;
  readonly #world: ClusterWorld;
  readonly #random: Random;
  readonly #workers: readonly Worker[];
  readonly #tables: readonly ProbedTables[];
  readonly #mover: Mover;
  readonly #backups: BackupTaker;
  readonly #decommissioner: Decommissioner | undefined;
  readonly #problems: string[] = [];
  readonly #byName: Record<string, number> = {};
  readonly #probes: Prober['counts'] = noProbes();
  #faults = 0;
  #clearedMsMax = 0;

  constructor(options: FaultRunOptions, world: ClusterWorld) {
    this.#options = options;
    this.#world = world;
    this.#random = new Random(options.seed);
    const { warehouses, ring, keeper } = world;
    this.#tables = warehouses.map((name) => new ProbedTables(name));
    const repeats = this.#random.fork(0);
    this.#mover = new Mover(this.#random.fork(500), warehouses);
    const warehouse = this.#random.fork(502).pick(warehouses);
    this.#backups = new BackupTaker(this.#random.fork(503), { warehouse, directory: world.backupDirectory });
    // A node that does not replicate and is taken out has missed the changes of that time for good.
    if (keeper) this.#decommissioner = new Decommissioner(this.#random.fork(501), warehouses[0] as string, ring.nodes);
    this.#workers = warehouses.flatMap((warehouse, index) =>
      Array.from({ length: workersEach }, (_, n) => {
        const place: WorkerPlace = {
          catalog: warehouse,
          warehouse,
          anyServer: () => repeats.pick(world.servers).api,
          loadDirectory: world.loadDirectory,
          numbers: numbersInClickhouse,
          hasKeys: false,
          certainMs: clearedMs,
        };
        const position = index * workersEach + n;
        return new Worker(position, this.#random.fork(position + 1), tablesEach, place);
      }),
    );
  }

  async all(): Promise<FaultRunReport> {
    const { faults, seed, atLeast = 0, hasTime = () => true } = this.#options;
    try {
      const [{ api, patientApi }] = this.#world.servers as [ClusterServer];
      for (const tables of this.#tables) await tables.create(api);
      for (const worker of this.#workers) await worker.begin(api);
      await this.#mover.create(api);
      await this.#backups.create(api);
      while (this.#faults < faults && (this.#faults < atLeast || hasTime()) && this.#found().length === 0)
        await this.#oneFault();
      const { result } = await patientApi.post('/api/v2/audit_events/verify', {});
      if (JSON.stringify(result.faults) !== '[]') this.#problems.push(`the audit: ${JSON.stringify(result)}`);
    } catch (error) {
      this.#problems.push(String((error as Error).stack));
    }
    const counts = noCounts();
    for (const worker of this.#workers)
      for (const key of Object.keys(counts) as (keyof Counts)[]) counts[key] += worker.counts[key];
    return {
      seed,
      faults: this.#faults,
      byName: this.#byName,
      counts,
      probes: { ...this.#probes, moves: this.#mover.moves, backups: this.#backups.backups },
      decommissions: this.#decommissioner?.counts ?? noDecommissions(),
      clearedMsMax: Math.round(this.#clearedMsMax),
      problems: this.#found(),
    };
  }

  #found(): string[] {
    return [
      ...this.#problems,
      ...this.#mover.problems,
      ...this.#backups.problems,
      ...(this.#decommissioner?.problems ?? []),
      ...this.#workers.flatMap(({ problems }) => problems),
      ...this.#world.servers.flatMap(({ api, patientApi, failedStarts }) => [
        ...api.problems,
        ...patientApi.problems,
        ...failedStarts,
      ]),
    ];
  }

  async #oneFault(): Promise<void> {
    // Each fault has a sequence of its own: the same whatever the clients chose in the meantime.
    const random = this.#random.fork(++this.#faults + 1000);
    const fault = randomFault(random, this.#world, this.#options.only);
    this.#byName[fault.name] = (this.#byName[fault.name] ?? 0) + 1;
    this.#options.log?.(`fault ${this.#faults}: ${fault.name}`);
    const probers = this.#world.servers.flatMap(({ host, api }) =>
      this.#tables.map((tables) => new Prober(`${tables.catalog} through ${host.name}`, api, tables)),
    );
    const apis = this.#world.servers.map(({ api }) => api);
    let halted = false;
    const working = [
      ...probers.map((prober) => prober.run()),
      this.#mover.run(apis),
      this.#backups.run(apis),
      ...(this.#decommissioner ? [this.#decommissioner.run(apis)] : []),
      ...this.#workers.map((worker, n) => this.#work(worker, random.fork(n), () => halted)),
    ].map((work) => work.catch((error: Error) => void this.#problems.push(String(error.stack))));
    try {
      await pause(100 + random.below(1000));
      const end = await fault.begin(this.#world);
      await hold(random);
      await end();
      // While a node is out of service no table is made: its definition of the cluster has all of them.
      this.#decommissioner?.halt();
      await this.#cleared(fault.name, probers);
    } finally {
      halted = true;
      for (const prober of probers) prober.halt();
      this.#mover.halt();
      this.#backups.halt();
      this.#decommissioner?.halt();
      await this.#ended(working);
    }
    for (const { problems, counts } of probers) {
      this.#problems.push(...problems.map((problem) => `fault ${this.#faults}, ${fault.name}: ${problem}`));
      for (const key of Object.keys(counts) as (keyof Prober['counts'])[]) this.#probes[key] += counts[key];
    }
    await this.#look(random.pick(this.#world.servers).patientApi);
  }

  /** The clients end with an answer that is certain: what they wait for is said. */
  async #ended(working: readonly Promise<void>[]): Promise<void> {
    const saying = setInterval(
      () =>
        this.#options.log?.(
          `clients wait: ${[...this.#workers.map(({ waitsFor }) => waitsFor), this.#decommissioner?.waitsFor].join('; ')}`,
        ),
      sayMs,
    );
    try {
      await Promise.all(working);
    } finally {
      clearInterval(saying);
    }
  }

  async #work(worker: Worker, random: Random, isHalted: () => boolean): Promise<void> {
    while (!isHalted()) {
      const { failed, unanswered } = worker.counts;
      await worker.step(random.pick(this.#world.servers).api);
      const { counts } = worker;
      await pause(counts.failed + counts.unanswered > failed + unanswered ? refusedPauseMs : 0);
    }
  }

  /** Until each warehouse is read and written through each server again. */
  async #cleared(fault: string, probers: readonly Prober[]): Promise<void> {
    const ended = performance.now();
    const late = () => probers.filter((prober) => !prober.hasWorkedSince(ended));
    try {
      let saidAt = ended;
      const isOver = () => {
        if (late().length === 0) return true;
        if (performance.now() - saidAt < sayMs) return false;
        saidAt = performance.now();
        const waits = late().map(({ name, last }) => `${name} waits: ${last}`);
        this.#options.log?.([...waits, this.#decommissioner?.waitsFor].join('; '));
        return false;
      };
      await eventually('everything works', isOver, clearedMs);
    } catch {
      const names = late().map(({ name, last }) => `${name} (${last})`);
      const waits = [...names, ...(await readOnlyReplicas(this.#world))].join(', ');
      throw new Error(`fault ${this.#faults}: ${deadlineMs(clearedMs)} ms after the end of ${fault}: ${waits}`);
    }
    this.#clearedMsMax = Math.max(this.#clearedMsMax, performance.now() - ended);
  }

  /** Until no change is open. */
  async #settled(api: PatientApi): Promise<void> {
    for (const warehouse of this.#world.warehouses) {
      let last: unknown;
      await eventually(
        `no change of ${warehouse} is open`,
        async () => {
          last = (await api.get(`/api/v2/warehouses/${warehouse}`)).result;
          return (last as { openChanges?: number }).openChanges === 0;
        },
        settledMs,
      ).catch((error) => {
        throw new Error(`${(error as Error).message}: ${JSON.stringify(last)}`);
      });
    }
  }

  async #look(api: PatientApi): Promise<void> {
    await this.#settled(api);
    // A list that a 503 interrupts is begun again.
    const tasks = await eventually(
      'all tasks have ended',
      () => api.endOfTasks(tasksEndMs).catch(() => undefined),
      settledMs,
    );
    await this.#settled(api);
    const ends = new Map(
      tasks.map((task) => [String(task.taskId), endOfTask(task) as NonNullable<InterruptedChange['task']>]),
    );
    // First the nodes themselves: one that has ended would show as a lasting 503.
    this.#problems.push(...(await nodeDifferences(this.#world)));
    for (const tables of this.#tables) this.#problems.push(...(await tables.check(api)));
    for (const worker of this.#workers) await worker.checkTables(api, ends);
    await this.#mover.check(api, ends);
    await this.#backups.check(api, ends);
    if (tasks.length > tasksKeptMax) for (const task of tasks) await api.delete(`/api/v2/tasks/${task.taskId}`);
  }
}
