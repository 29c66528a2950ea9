// The analysis processes of a warehouse: they parse and bind the SQL of callers and sniff their files, so that input that crashes DuckDB
// does not crash the process that runs statements. Each process runs one call at a time, so a crash identifies the call that caused it. One
// process is always ready; more are started while calls wait, shared fairly between principals, and idle ones are discarded. Calls that read
// files may take long, so they are limited to half of the processes.
import { Failure } from '../../../standard/failure.ts';
import { Admission, type AdmissionLimits, type AdmissionRequest } from '../../admission.ts';
import { EngineProcess } from '../process/engine_process.ts';
import { helperMemoryBytesMax } from '../process/process_launcher.ts';
import type { OperationName, Operations } from '../process/protocol.ts';
import type { Launch } from '../sandbox/sandbox.ts';

/** A single principal may use all but one. */
const processesMax = 4;
/** Processes that calls which read files may occupy at once. */
const readersMax = 2;
/** A call waits this long for a busy process before another one is started. */
const growAfterMs = 100;
/** Delay after a failed start while other processes are running. */
const retryMs = 1_000;
const idleMs = 30_000;
const queueWaitMs = 30_000;
/** For calls that read files: the calls ahead of them take longer. */
const readerQueueWaitMs = 300_000;
const queueMax = 10_000;

/** Operations that read files; their duration depends on the length of the file. */
const fileOperations: ReadonlySet<OperationName> = new Set(['inferTable', 'planLoad']);

export interface AnalysisProcessesOptions {
  readonly launch: () => Promise<Launch>;
  readonly settings: () => Operations['prepare'][0];
  /** Called when a process ended that was not discarded. */
  readonly died: (pid: number, reason: string) => void;
}

interface WaitingCall {
  readonly isReader: boolean;
  readonly resolve: (process: EngineProcess) => void;
  readonly reject: (reason: unknown) => void;
}

export class AnalysisProcesses {
  readonly #options: AnalysisProcessesOptions;
  readonly #admission = new Admission();
  readonly #readerAdmission = new Admission();
  /** Excludes the processes that file readers occupy, so that no admitted call has to wait for a file reader to end. */
  readonly #limits: AdmissionLimits;
  readonly #readerLimits: AdmissionLimits = { queriesMax: readersMax, queueMax, queueWaitMs: readerQueueWaitMs };
  readonly #processes = new Set<EngineProcess>();
  /** A stack: the process used last is used next, so that the others become idle and can be discarded. */
  readonly #idle: EngineProcess[] = [];
  readonly #waiting: WaitingCall[] = [];
  readonly #outdated = new Set<EngineProcess>();
  readonly #idleTimers = new Map<EngineProcess, NodeJS.Timeout>();
  #isStarting = false;
  /** Settles when the last start has ended. */
  #started: Promise<void> = Promise.resolve();
  #lastStartFailureMs = Number.NEGATIVE_INFINITY;
  #stopCount = 0;
  #isRunning = false;

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

  /** Returns at once; calls wait until the first process is ready. */
  start(): void {
    this.#isRunning = true;
    this.#ensureProcess();
  }

  /** `reason`: the failure with which running and waiting calls end. */
  async stop(reason: Failure): Promise<void> {
    this.#isRunning = false;
    this.#stopCount++;
    this.#refuseAll(reason);
    await Promise.all([...this.#processes].map((process) => this.#discard(process, reason)));
    await this.#started;
  }

  /** Replaces the running processes, as they become free, with processes that have the current settings. */
  renew(): void {
    for (const process of this.#processes) this.#outdated.add(process);
    for (const process of this.#idle.splice(0)) void this.#discard(process);
    this.#ensureProcess();
  }

  /** Throws what the operation or `EngineProcess.call` throws, and WAREHOUSE_BUSY if the call timed out in the queue. */
  call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    { request, timeoutMs }: { readonly request: AdmissionRequest; readonly timeoutMs: number },
  ): Promise<Operations[K][1]> {
    const isReader = fileOperations.has(operation);
    const admission = isReader ? this.#readerAdmission : this.#admission;
    const limits = isReader ? this.#readerLimits : this.#limits;
    return admission.run(limits, request, async (queuedMs) => {
      const process = await this.#acquire(isReader, request.signal, limits.queueWaitMs - queuedMs);
      try {
        return await process.call(operation, argument, { timeoutMs, signal: request.signal });
      } catch (error) {
        throw this.#namingLimit(error, isReader);
      } finally {
        this.#release(process);
      }
    });
  }

  /** A failure of too little memory says that it is not that of the statement while it runs. */
  #namingLimit(error: unknown, isReader: boolean): unknown {
    if (!(error instanceof Failure) || error.code !== 'MEMORY_LIMIT_EXCEEDED') return error;
    const { memoryLimitBytes } = this.#options.settings().spec;
    const { result, retryAfterSeconds, cause, outcome } = error;
    const advice =
      memoryLimitBytes < helperMemoryBytesMax
        ? 'that is `memoryLimitBytes` of the warehouse'
        : 'no setting raises that. Large constants are computed during the analysis';
    const what = isReader
      ? 'the analysis of the file before it is loaded'
      : 'the analysis of the statement before it runs';
    const message = `${what} needs more memory than its limit of ${memoryLimitBytes} bytes: ${advice}`;
    return new Failure(error.code, message, result, { retryAfterSeconds, cause, outcome });
  }

  async #acquire(isReader: boolean, signal: AbortSignal, waitMs: number): Promise<EngineProcess> {
    if (!this.#isRunning) throw suspendedFailure();
    const idle = this.#idle.pop();
    if (idle) {
      clearTimeout(this.#idleTimers.get(idle));
      return idle;
    }
    const { promise, resolve, reject } = Promise.withResolvers<EngineProcess>();
    const waiting: WaitingCall = { isReader, resolve, reject };
    this.#waiting.push(waiting);
    // Removes the call from the queue in the same step as rejecting it: a process passed to it later would be lost.
    const refuse = (reason: Failure) => {
      const index = this.#waiting.indexOf(waiting);
      if (index >= 0) this.#waiting.splice(index, 1);
      reject(reason);
    };
    const cancel = () => refuse(new Failure('STATEMENT_CANCELLED', 'the statement was cancelled in the queue'));
    const timeOut = () =>
      refuse(new Failure('WAREHOUSE_BUSY', 'timed out waiting for a process to analyze the statement'));
    signal.addEventListener('abort', cancel, { once: true });
    const deadline = setTimeout(timeOut, waitMs);
    // Repeated, because the process that is starting now may serve another call.
    const growTimer = setInterval(() => this.#ensureProcess(), growAfterMs);
    if (signal.aborted) cancel();
    else if (this.#processes.size === 0) this.#ensureProcess();
    try {
      return await promise;
    } finally {
      clearInterval(growTimer);
      clearTimeout(deadline);
      signal.removeEventListener('abort', cancel);
    }
  }

  #release(process: EngineProcess): void {
    if (!process.alive) return;
    if (this.#outdated.has(process)) {
      void this.#discard(process).then(() => this.#ensureProcess());
      return;
    }
    const first = this.#waiting.findIndex(({ isReader }) => !isReader);
    const [next] = this.#waiting.splice(Math.max(0, first), 1);
    if (next) {
      next.resolve(process);
      return;
    }
    this.#idle.push(process);
    const discardIdle = () => {
      if (this.#processes.size === 1 || !this.#idle.includes(process)) return;
      void this.#discard(process);
    };
    this.#idleTimers.set(process, setTimeout(discardIdle, idleMs).unref());
  }

  async #discard(process: EngineProcess, reason?: Failure): Promise<void> {
    this.#forget(process);
    await process.discard(reason);
  }

  async #startOne(): Promise<void> {
    this.#isStarting = true;
    const stopCount = this.#stopCount;
    let process: EngineProcess | undefined;
    try {
      const launch = await this.#options.launch();
      if (!this.#isRunning) throw suspendedFailure();
      process = this.#createProcess(launch);
      this.#processes.add(process);
      await process.prepared;
      this.#release(process);
    } catch (error) {
      if (process) await this.#discard(process);
      // The calls that wait now arrived after the stop that ended this start; the next start serves them.
      if (stopCount !== this.#stopCount) return;
      this.#lastStartFailureMs = performance.now();
      // While other processes run, the waiting calls are served by them; without any, no process may come in time.
      if (this.#processes.size === 0) this.#refuseAll(error);
    } finally {
      this.#isStarting = false;
      if (stopCount !== this.#stopCount) this.#ensureProcess();
    }
  }

  #refuseAll(reason: unknown): void {
    for (const waiting of this.#waiting.splice(0)) waiting.reject(reason);
  }

  #createProcess(launch: Launch): EngineProcess {
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
    if (!this.#processes.has(process)) return;
    this.#forget(process);
    this.#ensureProcess();
  }

  #ensureProcess(): void {
    if (!this.#isRunning || this.#isStarting) return;
    const mustGrow =
      this.#waiting.length > 0 &&
      this.#processes.size < processesMax &&
      performance.now() - this.#lastStartFailureMs > retryMs;
    if (this.#processes.size === 0 || mustGrow) this.#started = this.#startOne();
  }

  #forget(process: EngineProcess): void {
    clearTimeout(this.#idleTimers.get(process));
    this.#idleTimers.delete(process);
    this.#outdated.delete(process);
    this.#processes.delete(process);
    const index = this.#idle.indexOf(process);
    if (index >= 0) this.#idle.splice(index, 1);
  }
}

const suspendedFailure = () => new Failure('WAREHOUSE_SUSPENDED', 'the warehouse is suspended');
