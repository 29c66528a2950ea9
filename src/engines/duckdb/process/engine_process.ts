// The server's handle of an engine process: starts, calls, monitors and kills it. See warehouse.ts for the calls, worker.ts for
// their execution.

import { type ChildProcess, spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { parseJson } from '../../../standard/json/parse_json.ts';
import { blamedFor, endedEngine, engineLost } from '../../engine_lost.ts';
import type { AttachReport, AttachRequest } from '../../port/catalog_storage.ts';
import type { CatalogRef } from '../../port/refs.ts';
import { type ExecuteOptions, StaleAnalysis } from '../../port/statements.ts';
import type { ReportProgress } from '../../port/work.ts';
import type { Launch } from '../sandbox/sandbox.ts';
import { damageInError } from '../storage/catalog_damage.ts';
import type { FromEngine, OperationName, Operations, ToEngine } from './protocol.ts';
import type { WireError } from './wire_errors.ts';

const prepareTimeoutMs = 120_000;
/** Replaying a log can take any time; damage shows as an error or a crash, not as slowness. */
const attachTimeoutMs = 24 * 3600 * 1000;
const stopTimeoutMs = 5_000;
/** How long an interrupted statement may take to end before the process is killed. */
const interruptGraceMs = 1_000;
/** How long the process may take to report the cause after an error of another statement. */
const fatalErrorDelayMs = 500;
/** Added to the niceness of the server. Processes that analyze statements and files yield to those that run them. */
const engineNice = 5;
const analysisNice = 10;
const silenceMs = 10_000;
const watchMs = 500;
/** How far a process may exceed its memory limit before it is killed: code, buffers of rows in transit, fragmentation. */
const residentSlackBytes = 256 * 1024 * 1024;
const residentFactor = 1.25;

/** Signals of a process that crashed because of a defect in it. SIGKILL comes from outside: an operator, or a system short of memory. */
const crashSignals: ReadonlySet<NodeJS.Signals> = new Set(['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE']);

/** Operations whose cost a caller's text or rows can drive up. */
const blameableOperations: ReadonlySet<OperationName> = new Set([
  'bind',
  'execute',
  'explain',
  'insertRows',
  'load',
  'inferTable',
  'planLoad',
  'checkDefault',
  'writeSnapshotPart',
  'restorePart',
]);

interface Pending {
  readonly operation: OperationName;
  /** Interrupts the call, which then fails with `why`. */
  readonly interrupt: (why: Failure) => void;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  readonly progress: CallOptions['progress'];
  readonly onPage: CallOptions['onPage'];
  /** The failure of this call when the process ends, if it differs from that of the other calls. */
  ending?: Failure;
}

export interface ProcessEvents {
  died(reason: string): void;
  /** A catalog was attached, or could not be attached. */
  attached(report: AttachReport): void;
  /** `byStatement`: a statement is at fault, not the engine. */
  killed(reason: string, byStatement: boolean): void;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
  readonly progress?: ReportProgress | undefined;
  readonly onPage?: ExecuteOptions['onPage'];
}

export class EngineProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  readonly #memoryLimitBytes: number;
  readonly #residentBytesMax: number;
  readonly #runsOneCall: boolean;
  readonly #events: ProcessEvents;
  /** Resolves when the process has exited and released its files. */
  readonly exited: Promise<void>;
  readonly #watch: NodeJS.Timeout;
  #nextId = 1;
  #alive = true;
  #stopping = false;
  /** Why it was killed; pending calls fail with it. */
  #killReason: Failure | undefined;
  #fatalErrorTimer: NodeJS.Timeout | undefined;
  /** It was killed because its heartbeats stopped. */
  #isSilent = false;
  /** Whether missing heartbeats indicate a hang: on a busy machine, starting or opening files can take longer than `silenceMs`. */
  #isMonitored = false;
  /** It was ended neither by itself nor by the server, but by an operator or a system short of memory. */
  wasKilledFromOutside = false;
  /** Settles when it is ready to attach files. */
  readonly prepared: Promise<Operations['prepare'][1]>;
  /** The catalog whose file is being opened. */
  attaching: CatalogRef | undefined;
  residentBytes = 0;
  spilledBytes = 0;
  runningStatements = 0;
  /** Milliseconds since 1970. */
  lastHeartbeatAt = Date.now();
  #heardAt = performance.now();
  #checkedAt = performance.now();

  /** `runsOneCall`: the process has one call at a time, which is to blame if the process ends by its own fault. */
  constructor(
    { command, args, env }: Launch,
    settings: Operations['prepare'][0],
    events: ProcessEvents,
    { runsOneCall = false }: { readonly runsOneCall?: boolean } = {},
  ) {
    this.#runsOneCall = runsOneCall;
    this.#memoryLimitBytes = settings.spec.memoryLimitBytes;
    this.#residentBytesMax = this.#memoryLimitBytes * residentFactor + residentSlackBytes;
    this.#events = events;
    this.#child = spawn(command, args, {
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env,
    });
    lowerPriority(this.#child.pid, runsOneCall ? analysisNice : engineNice);
    this.#child.on('message', (message: FromEngine) => this.#receive(message));
    this.exited = new Promise((resolve) => {
      this.#child.on('error', (error) => {
        // Without a pid it never started, and no exit event will follow.
        if (this.#child.pid !== undefined) return;
        this.#handleEnd(error.message);
        resolve();
      });
      this.#child.once('exit', (code, signal) => {
        const crashed = signal !== null && crashSignals.has(signal);
        this.wasKilledFromOutside = signal !== null && !crashed && this.#killReason === undefined;
        this.#handleEnd(signal ?? `exit code ${code}`, crashed);
        resolve();
      });
    });
    this.#watch = setInterval(() => this.#checkHealth(), watchMs);
    this.#watch.unref();
    this.prepared = this.call('prepare', settings, { timeoutMs: prepareTimeoutMs });
    this.prepared.then(
      () => {
        this.#isMonitored = true;
      },
      () => undefined,
    );
  }

  /** Whether it accepts calls: a killed process accepts none, although it may not have exited yet. */
  get alive(): boolean {
    return this.#alive && this.#killReason === undefined;
  }

  /** Whether calls are pending. */
  get busy(): boolean {
    return this.#pending.size > 0;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Opens the files of the catalogs. Throws the error of `prepared`. */
  async attach(catalogs: readonly AttachRequest[]): Promise<Operations['prepare'][1] & Operations['attach'][1]> {
    const prepared = await this.prepared;
    this.#isMonitored = false;
    const attached = await this.call('attach', { catalogs }, { timeoutMs: attachTimeoutMs });
    this.#isMonitored = true;
    return { ...prepared, ...attached };
  }

  /** Ends a process that is no longer needed and holds no files. */
  async discard(reason = processEnded()): Promise<void> {
    this.#stopping = true;
    this.#killReason ??= reason;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  /** Throws the engine's error; WAREHOUSE_FAILED if the process ended meanwhile; STATEMENT_TIMEOUT; STATEMENT_CANCELLED. */
  call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    { signal, timeoutMs, progress, onPage }: CallOptions,
  ): Promise<Operations[K][1]> {
    if (!this.#alive || (this.#killReason && operation !== 'close'))
      return Promise.reject(withOutcome(this.#killReason ?? processEnded(), 'notApplied'));
    if (signal?.aborted) return Promise.reject(cancelled());
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      let reason: Failure | undefined;
      let grace: NodeJS.Timeout | undefined;
      const interrupt = (why: Failure) => {
        if (reason) return;
        reason = why;
        this.#send({ kind: 'interrupt', id });
        grace = setTimeout(() => {
          end();
          // Only operations driven by a text or rows can be blamed. The outcome is unknown: the interrupt may have come too late.
          reject(
            blameableOperations.has(operation)
              ? this.#stopping
                ? withUnknownOutcome(why)
                : blamedFor(withUnknownOutcome(why))
              : processEnded(),
          );
          this.kill(`a statement did not stop within ${interruptGraceMs} ms of its interrupt`, processEnded(), true);
        }, interruptGraceMs);
      };
      const timeout = setTimeout(() => interrupt(timedOut(timeoutMs)), timeoutMs);
      const abort = () => interrupt(cancelled());
      const end = () => {
        clearTimeout(timeout);
        clearTimeout(grace);
        signal?.removeEventListener('abort', abort);
        this.#pending.delete(id);
      };
      this.#pending.set(id, {
        operation,
        interrupt,
        progress,
        onPage,
        resolve: (value) => {
          end();
          resolve(value as Operations[K][1]);
        },
        reject: (error) => {
          end();
          // Whatever its error says, an interrupted statement ended because of the interrupt.
          if (reason) reject(endedEngine(error) ? blamedFor(withUnknownOutcome(reason)) : reason);
          else reject(error);
        },
      });
      signal?.addEventListener('abort', abort, { once: true });
      try {
        this.#send({ kind: 'call', id, operation, argument, progress: progress !== undefined });
      } catch (error) {
        end();
        reject(error);
      }
    });
  }

  /** Lets the process close its files; kills it if that takes too long. Running statements fail with `reason`. */
  async stop(reason: Failure): Promise<void> {
    if (!this.#alive || this.#stopping || this.#killReason) return this.exited;
    this.#stopping = true;
    this.#killReason = reason;
    for (const pending of this.#pending.values()) pending.interrupt(reason);
    await this.call('close', undefined, { timeoutMs: stopTimeoutMs }).catch(() => undefined);
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  /** `reason`: the failure of the running statements. */
  kill(why: string, reason: Failure, byStatement = false): void {
    if (!this.alive) return;
    this.#killReason = reason;
    this.#events.killed(why, byStatement);
    this.#child.kill('SIGKILL');
  }

  /**
   * Accepts no more calls, and kills the process after a delay. The delay gives the fatal error itself time to arrive after the errors
   * that it caused in other statements: its caller learns which catalog is damaged.
   */
  #endAfterFatalError(why: string, byStatement: boolean, delayMs: number): void {
    if (this.alive) this.#killReason = processEnded();
    else if (this.#fatalErrorTimer === undefined) return;
    if (this.#fatalErrorTimer !== undefined && delayMs > 0) return;
    clearTimeout(this.#fatalErrorTimer);
    this.#fatalErrorTimer = setTimeout(() => {
      this.#fatalErrorTimer = undefined;
      this.#events.killed(why, byStatement);
      this.#child.kill('SIGKILL');
    }, delayMs);
  }

  #send(message: ToEngine): void {
    if (this.#child.connected) this.#child.send(message, () => undefined);
  }

  #receive(message: FromEngine): void {
    this.lastHeartbeatAt = Date.now();
    this.#heardAt = performance.now();
    if (message.kind === 'heartbeat') {
      this.residentBytes = message.residentBytes;
      this.spilledBytes = message.spilledBytes;
      this.runningStatements = message.runningStatements;
      this.#checkHealth();
      return;
    }
    if (message.kind === 'attaching') {
      this.attaching = message.catalog;
      return;
    }
    if (message.kind === 'attached' || message.kind === 'refused' || message.kind === 'fatal') {
      this.attaching = undefined;
      this.#events.attached(message);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (!pending) return;
    if (message.kind === 'progress') pending.progress?.(message.fraction);
    else if (message.kind === 'page') pending.onPage?.(message.page);
    else if (message.kind === 'answer') pending.resolve(message.value);
    else pending.reject(this.#errorOf(message.fault, pending.operation));
  }

  #errorOf(fault: WireError, operation: OperationName): Error {
    switch (fault.kind) {
      case 'stale':
        return new StaleAnalysis();
      case 'failure': {
        const { code, message, retryAfterSeconds, outcome } = fault;
        const result = parseJson(fault.result) as Failure['result'];
        return new Failure(code, message, result, { retryAfterSeconds, outcome });
      }
      case 'fatal': {
        const cause = new Error(fault.message);
        const damage = damageInError(fault.message);
        // The error of every statement after a fatal error of another one.
        const isConsequence = damage === undefined && /database has been invalidated/.test(fault.message);
        const why = `a fatal error of the engine: ${fault.message.split('\n', 1)[0]}`;
        this.#endAfterFatalError(why, damage === undefined, isConsequence ? fatalErrorDelayMs : 0);
        if (damage !== undefined)
          return new Failure('CATALOG_DAMAGED', 'a catalog of the statement is damaged', {
            reason: damage,
            isFatal: true,
          });
        if (isConsequence) return processEnded();
        return operation === 'execute' || operation === 'bind' || operation === 'explain'
          ? blamedFor(new Failure('SQL_NOT_SUPPORTED', 'the engine cannot run this statement'))
          : new Failure('WAREHOUSE_FAILED', 'the engine failed', {}, { cause });
      }
      case 'error':
        return Object.assign(new Error(fault.message), fault.stack === undefined ? {} : { stack: fault.stack });
    }
  }

  /** Kills a process with too much memory or no heartbeats: the limits that the engine enforces itself are soft. */
  #checkHealth(): void {
    if (!this.alive) return;
    // After a pause of this process itself (a suspended machine, a long garbage collection), messages of the engine are still
    // unread.
    if (performance.now() - this.#checkedAt > silenceMs / 2) this.#heardAt = performance.now();
    this.#checkedAt = performance.now();
    if (this.residentBytes > this.#residentBytesMax) {
      const statements = [...this.#pending.values()].filter(({ operation }) => blameableOperations.has(operation));
      const culprit = statements.length === 1 ? statements[0] : undefined;
      // The call fails only when the process has exited: a caller that retries at once gets the next process.
      if (culprit)
        culprit.ending = blamedFor(
          withUnknownOutcome(
            new Failure(
              'MEMORY_LIMIT_EXCEEDED',
              'the statement needs more memory than `memoryLimitBytes` of the warehouse',
            ),
          ),
        );
      this.kill(
        `its resident memory of ${this.residentBytes} bytes exceeds the limit of ${this.#residentBytesMax} bytes`,
        processEnded(),
        statements.length > 0,
      );
    } else if (this.#isMonitored && performance.now() - this.#heardAt > silenceMs) {
      this.#isSilent = true;
      this.kill(`no heartbeat for ${silenceMs} ms`, processEnded());
    }
  }

  /** `crashed`: the process ended by its own fault. */
  #handleEnd(cause: string, crashed = false): void {
    if (!this.#alive) return;
    this.#alive = false;
    clearInterval(this.#watch);
    const reason = this.#killReason ?? processEnded();
    const calls = [...this.#pending.values()];
    const failureOfOnlyCall = this.#lossOfOnlyCall(crashed);
    for (const pending of calls) {
      const ranAlone = calls.length === 1 && blameableOperations.has(pending.operation);
      pending.reject(pending.ending ?? (ranAlone ? failureOfOnlyCall : undefined) ?? reason);
    }
    if (!this.#stopping) this.#events.died(cause);
  }

  /** The failure of the only pending call; undefined if it certainly did not end the process. */
  #lossOfOnlyCall(crashed: boolean): Failure | undefined {
    const isOwnFault = crashed || this.#isSilent;
    // Where statements run concurrently, none is blamed for a first crash; a statement that crashes the next process too is.
    if (!this.#runsOneCall) return isOwnFault ? engineLost(false, true) : undefined;
    if (!isOwnFault && this.#killReason) return undefined;
    // The process was killed from outside, perhaps by mistake: one kill proves nothing, unless the system ran out of the memory
    // that this call had taken.
    const isInnocent = this.wasKilledFromOutside && this.residentBytes <= this.#memoryLimitBytes;
    return isInnocent ? engineLost(false, true) : engineLost(true);
  }
}

/** So that statements that use all cores do not delay the server, which answers requests without them too. */
function lowerPriority(pid: number | undefined, nice: number): void {
  try {
    if (pid !== undefined) setPriority(pid, nice);
  } catch {
    // It has ended already.
  }
}

const processEnded = () => engineLost(false);
/** A killed statement may have committed before: its idempotency key is retained. */
const withUnknownOutcome = ({ code, message, result, retryAfterSeconds }: Failure) =>
  new Failure(code, message, result, { retryAfterSeconds, outcome: 'unknown' });
const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
const timedOut = (ms: number) =>
  new Failure('STATEMENT_TIMEOUT', `the statement ran longer than ${ms / 1000} s and was stopped`, {
    timeoutSeconds: ms / 1000,
  });
