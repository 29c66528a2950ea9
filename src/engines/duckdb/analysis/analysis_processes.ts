// The processes of a warehouse in which texts and files of callers are parsed, bound and sniffed: what dies of them is not the process that
// runs statements. Each has one call at a time, so that blame is certain. One is always ready; more are started while calls wait, shared
// fairly between principals, and leave when nobody needs them. Calls that read files, which may last, leave half of them to the others.
import { Failure } from '../../../standard/failure.ts';
import { Admission, type AdmissionLimits, type Turn } from '../../admission.ts';
import { EngineProcess } from '../process/engine_process.ts';
import type { OperationName, Operations } from '../process/protocol.ts';
import type { Launch } from '../sandbox/sandbox.ts';

/** A principal alone has all but one. */
const processesMax = 4;
/** Of them, for calls that read files. */
const readersMax = 2;
/** A call waits so long for a process that is busy before another one is started. */
const patienceMs = 100;
/** After a start that failed, while other processes serve. */
const retryMs = 1_000;
const idleMs = 30_000;
const queueWaitMs = 30_000;
/** Of calls that read files: those before them take longer. */
const readerQueueWaitMs = 300_000;
const queueMax = 10_000;

/** What reads files, for as long as their length requires. */
const readers: ReadonlySet<OperationName> = new Set(['inferTable', 'shapeOfLoad']);

export interface AnalysisProcessesOptions {
  readonly launch: () => Promise<Launch>;
  readonly settings: () => Operations['prepare'][0];
  /** One ended that was needed. */
  readonly died: (pid: number, reason: string) => void;
}

interface Waiting {
  readonly isReader: boolean;
  readonly take: (process: EngineProcess) => void;
  readonly refuse: (reason: unknown) => void;
}

export class AnalysisProcesses {
  readonly #options: AnalysisProcessesOptions;
  readonly #admission = new Admission();
  readonly #readerAdmission = new Admission();
  /** What readers occupy is not given to others a second time: nobody who was admitted waits for a reader to end. */
  readonly #limits: AdmissionLimits;
  readonly #readerLimits: AdmissionLimits = { queriesMax: readersMax, queueMax, queueWaitMs: readerQueueWaitMs };
  readonly #all = new Set<EngineProcess>();
  /** The one used last is used next: the others may leave. */
  readonly #free: EngineProcess[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #outdated = new Set<EngineProcess>();
  readonly #leaving = new Map<EngineProcess, NodeJS.Timeout>();
  #isStarting = false;
  /** Settles when the last start has ended. */
  #started: Promise<void> = Promise.resolve();
  #startFailedAt = Number.NEGATIVE_INFINITY;
  #stops = 0;
  #wanted = false;

  constructor(options: AnalysisProcessesOptions) {
    this.#options = options;
    const readerAdmission = this.#readerAdmission;
    this.#limits = {
      get queriesMax() {
        return processesMax - readerAdmission.running;
      },
      queueMax,
      queueWaitMs,
    };
  }

  /** Returns at once: what is called meanwhile waits until the first process is ready. */
  start(): void {
    this.#wanted = true;
    this.#replace();
  }

  /** `reason`: what calls that run end with. */
  async stop(reason: Failure): Promise<void> {
    this.#wanted = false;
    this.#stops++;
    this.#refuseAll(reason);
    await Promise.all([...this.#all].map((process) => this.#leave(process, reason)));
    await this.#started;
  }

  /** Processes with other limits take the place of those that run, as these become free. */
  renew(): void {
    for (const process of this.#all) this.#outdated.add(process);
    for (const process of this.#free.splice(0)) void this.#leave(process);
    this.#replace();
  }

  /** Throws what the operation threw, what `EngineProcess.call` throws, and WAREHOUSE_BUSY where no turn came in time. */
  call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    { turn, timeoutMs }: { readonly turn: Turn; readonly timeoutMs: number },
  ): Promise<Operations[K][1]> {
    const isReader = readers.has(operation);
    const admission = isReader ? this.#readerAdmission : this.#admission;
    const limits = isReader ? this.#readerLimits : this.#limits;
    return admission.run(limits, turn, async (queuedMs) => {
      const process = await this.#take(isReader, turn.signal, limits.queueWaitMs - queuedMs);
      try {
        return await process.call(operation, argument, { timeoutMs, signal: turn.signal });
      } finally {
        this.#put(process);
      }
    });
  }

  async #take(isReader: boolean, signal: AbortSignal, waitMs: number): Promise<EngineProcess> {
    if (!this.#wanted) throw suspended();
    const free = this.#free.pop();
    if (free) {
      clearTimeout(this.#leaving.get(free));
      return free;
    }
    const { promise, resolve, reject } = Promise.withResolvers<EngineProcess>();
    const waiting: Waiting = { isReader, take: resolve, refuse: reject };
    this.#waiting.push(waiting);
    // It leaves the queue in the same step in which it is refused: a process given to it later would be lost.
    const refuse = (reason: Failure) => {
      const at = this.#waiting.indexOf(waiting);
      if (at >= 0) this.#waiting.splice(at, 1);
      reject(reason);
    };
    const cancel = () => refuse(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled in the queue'));
    const giveUp = () => refuse(new Failure('WAREHOUSE_BUSY', 'no process was free in time to analyze the statement'));
    signal.addEventListener('abort', cancel, { once: true });
    const deadline = setTimeout(giveUp, waitMs);
    // Repeated, because a start that is under way now may serve another call.
    const patience = setInterval(() => this.#replace(), patienceMs);
    if (signal.aborted) cancel();
    else if (this.#all.size === 0) this.#replace();
    try {
      return await promise;
    } finally {
      clearInterval(patience);
      clearTimeout(deadline);
      signal.removeEventListener('abort', cancel);
    }
  }

  #put(process: EngineProcess): void {
    if (!process.alive) return;
    if (this.#outdated.has(process)) {
      void this.#leave(process).then(() => this.#replace());
      return;
    }
    const first = this.#waiting.findIndex(({ isReader }) => !isReader);
    const [next] = this.#waiting.splice(Math.max(0, first), 1);
    if (next) {
      next.take(process);
      return;
    }
    this.#free.push(process);
    const leave = () => {
      if (this.#all.size === 1 || !this.#free.includes(process)) return;
      void this.#leave(process);
    };
    this.#leaving.set(process, setTimeout(leave, idleMs).unref());
  }

  async #leave(process: EngineProcess, reason?: Failure): Promise<void> {
    this.#forget(process);
    await process.discard(reason);
  }

  async #startOne(): Promise<void> {
    this.#isStarting = true;
    const stops = this.#stops;
    let process: EngineProcess | undefined;
    try {
      const launch = await this.#options.launch();
      if (!this.#wanted) throw suspended();
      process = this.#launched(launch);
      this.#all.add(process);
      await process.prepared;
      this.#put(process);
    } catch (error) {
      if (process) await this.#leave(process);
      // What waits now came after the stop that ended this start, and is served by the next one.
      if (stops !== this.#stops) return;
      this.#startFailedAt = performance.now();
      // The others may be busy for long, and none may come after this one.
      if (this.#all.size === 0) this.#refuseAll(error);
    } finally {
      this.#isStarting = false;
      if (stops !== this.#stops) this.#replace();
    }
  }

  #refuseAll(reason: unknown): void {
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(reason);
  }

  #launched(launch: Launch): EngineProcess {
    const { settings, died } = this.#options;
    let killed: string | undefined;
    const process: EngineProcess = new EngineProcess(
      launch,
      settings(),
      {
        died: (reason) => {
          died(process.pid, killed ?? reason);
          this.#died(process);
        },
        killed: (reason) => {
          killed = reason;
        },
        attached: () => undefined,
      },
      { runsOneCall: true },
    );
    return process;
  }

  #died(process: EngineProcess): void {
    if (!this.#all.has(process)) return;
    this.#forget(process);
    this.#replace();
  }

  #replace(): void {
    if (!this.#wanted || this.#isStarting) return;
    const hasToGrow =
      this.#waiting.length > 0 && this.#all.size < processesMax && performance.now() - this.#startFailedAt > retryMs;
    if (this.#all.size === 0 || hasToGrow) this.#started = this.#startOne();
  }

  #forget(process: EngineProcess): void {
    clearTimeout(this.#leaving.get(process));
    this.#leaving.delete(process);
    this.#outdated.delete(process);
    this.#all.delete(process);
    const at = this.#free.indexOf(process);
    if (at >= 0) this.#free.splice(at, 1);
  }
}

const suspended = () => new Failure('WAREHOUSE_SUSPENDED', 'the warehouse is suspended');
