// The processes of a warehouse in which texts and files of callers are parsed, bound and sniffed: what dies of them is not the process that
// runs statements. Each has one call at a time, so that blame is certain. One is always ready; more are started while calls wait, shared
// fairly between principals, and leave when nobody needs them.
import { Failure } from '../../../standard/failure.ts';
import { Admission, type Turn } from '../../admission.ts';
import type { Launch } from '../confinement.ts';
import { EngineProcess } from '../process.ts';
import type { OperationName, Operations } from '../protocol.ts';

/** A principal alone has all but one. */
const processesMax = 4;
/** A call waits so long for a process that is busy before another one is started. */
const patienceMs = 100;
const idleMs = 30_000;
const queueWaitMs = 30_000;
const queueMax = 10_000;

export interface AnalysisProcessesOptions {
  readonly launch: () => Promise<Launch>;
  readonly settings: () => Operations['prepare'][0];
  /** One ended that was needed. */
  readonly died: (pid: number, reason: string) => void;
}

interface Waiting {
  readonly take: (process: EngineProcess) => void;
  readonly refuse: (reason: unknown) => void;
}

export class AnalysisProcesses {
  readonly #options: AnalysisProcessesOptions;
  readonly #admission = new Admission();
  readonly #all = new Set<EngineProcess>();
  /** The one used last is used next: the others may leave. */
  readonly #free: EngineProcess[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #outdated = new Set<EngineProcess>();
  readonly #leaving = new Map<EngineProcess, NodeJS.Timeout>();
  #starting = 0;
  #wanted = false;

  constructor(options: AnalysisProcessesOptions) {
    this.#options = options;
  }

  /** Returns at once: what is called meanwhile waits until the first process is ready. */
  start(): void {
    this.#wanted = true;
    this.#replace();
  }

  /** `reason`: what calls that run end with. */
  async stop(reason: Failure): Promise<void> {
    this.#wanted = false;
    for (const waiting of this.#waiting.splice(0)) waiting.refuse(reason);
    await Promise.all([...this.#all].map((process) => this.#leave(process, reason)));
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
    { turn, timeoutMs, signal }: { readonly turn: Turn; readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<Operations[K][1]> {
    return this.#admission.run({ queriesMax: processesMax, queueMax, queueWaitMs }, turn, async () => {
      const process = await this.#take();
      try {
        return await process.call(operation, argument, { timeoutMs, signal });
      } finally {
        this.#put(process);
      }
    });
  }

  async #take(): Promise<EngineProcess> {
    if (!this.#wanted) throw new Failure('WAREHOUSE_SUSPENDED', 'the warehouse is suspended');
    const free = this.#free.pop();
    if (free) {
      clearTimeout(this.#leaving.get(free));
      return free;
    }
    const { promise, resolve, reject } = Promise.withResolvers<EngineProcess>();
    this.#waiting.push({ take: resolve, refuse: reject });
    if (this.#all.size === 0) this.#replace();
    const timer = setTimeout(() => this.#replace(), patienceMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  #put(process: EngineProcess): void {
    if (!process.alive) return;
    if (this.#outdated.has(process)) {
      void this.#leave(process).then(() => this.#replace());
      return;
    }
    const next = this.#waiting.shift();
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
    this.#starting++;
    let process: EngineProcess | undefined;
    try {
      process = this.#launched(await this.#options.launch());
      this.#all.add(process);
      if (!this.#wanted) throw new Failure('WAREHOUSE_SUSPENDED', 'the warehouse is suspended');
      await process.prepared;
      this.#put(process);
    } catch (error) {
      if (process) await this.#leave(process);
      // The others may be busy for long, and none may come after this one.
      if (this.#all.size === 0) for (const waiting of this.#waiting.splice(0)) waiting.refuse(error);
    } finally {
      this.#starting--;
    }
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
    if (!this.#wanted || this.#starting > 0) return;
    if (this.#all.size === 0 || (this.#waiting.length > 0 && this.#all.size < processesMax)) void this.#startOne();
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
