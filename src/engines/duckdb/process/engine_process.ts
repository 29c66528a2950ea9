// The engine process as the server sees it: started, called, watched, killed. What it is asked to do is warehouse.ts's; what it
// does with it is worker.ts's.
import { type ChildProcess, spawn } from 'node:child_process';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { parseJson } from '../../../standard/json.ts';
import type { AttachReport, AttachRequest } from '../../catalog_storage.ts';
import { type CatalogRef, type ReportProgress, StaleAnalysis } from '../../engine.ts';
import { blamedFor, endedEngine, engineLost } from '../../engine_lost.ts';
import type { Launch } from '../sandbox/sandbox.ts';
import { damageInError } from '../storage/catalog_damage.ts';
import type { FromEngine, OperationName, Operations, ToEngine, WireError } from './protocol.ts';

const prepareTimeoutMs = 120_000;
/** A log is replayed in as long as its length takes, and damage shows as an error or a crash, not as slowness. */
const attachTimeoutMs = 24 * 3600 * 1000;
const stopTimeoutMs = 5_000;
/** How long an interrupted statement may take to end before the process is killed. */
const interruptGraceMs = 1_000;
const silenceMs = 10_000;
const watchMs = 500;
/** A process may be this much larger than its limit before it is killed: code, buffers of rows on their way, fragmentation. */
const residentSlackBytes = 256 * 1024 * 1024;
const residentFactor = 1.25;

/** By which a process ends that did something wrong itself. SIGKILL comes from others: an operator, or a system short of memory. */
const crashSignals: ReadonlySet<NodeJS.Signals> = new Set(['SIGSEGV', 'SIGBUS', 'SIGABRT', 'SIGILL', 'SIGFPE']);

/** What a caller's text or rows can make large. */
const blameable: ReadonlySet<OperationName> = new Set([
  'bind',
  'execute',
  'explain',
  'insertRows',
  'load',
  'inferTable',
  'shapeOfLoad',
  'checkDefault',
  'writeSnapshotPart',
  'restorePart',
]);

interface Pending {
  readonly operation: OperationName;
  /** Tells it to end, and what it ends with. */
  readonly interrupt: (why: Failure) => void;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  readonly progress: CallOptions['progress'];
  /** What it ends with when the process does, where that is not what all end with. */
  ending?: Failure;
}

export interface ProcessEvents {
  died(reason: string): void;
  /** A catalog was attached, or could not be. */
  attached(report: AttachReport): void;
  /** `byStatement`: not the engine is at fault but what it was asked for. */
  killed(reason: string, byStatement: boolean): void;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
  readonly progress?: ReportProgress | undefined;
}

export class EngineProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  readonly #memoryLimitBytes: number;
  readonly #residentBytesMax: number;
  readonly #runsOneCall: boolean;
  readonly #events: ProcessEvents;
  /** Resolves when the process is gone, and its files are free. */
  readonly exited: Promise<void>;
  readonly #watch: NodeJS.Timeout;
  #nextId = 1;
  #alive = true;
  #stopping = false;
  /** Why it was killed; what is pending ends with it. */
  #killReason: Failure | undefined;
  /** It was killed because it gave no sign of life. */
  #isSilent = false;
  /** Whether its silence means something: on a busy machine starting, or opening files, can take longer than it may last. */
  #heeds = false;
  /** Neither it itself nor the server ended it: an operator, or a system short of memory. */
  wasKilledFromOutside = false;
  /** Settles when it can take files. */
  readonly prepared: Promise<Operations['prepare'][1]>;
  /** The catalog whose file it is opening. */
  attaching: CatalogRef | undefined;
  residentBytes = 0;
  spilledBytes = 0;
  runningStatements = 0;
  /** Milliseconds since 1970. */
  lastHeartbeatAt = Date.now();
  #heardAt = performance.now();
  #lookedAt = performance.now();

  /** `runsOneCall`: it has one call at a time, which is to blame where the process ends by its own fault. */
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
    this.#child.on('message', (message: FromEngine) => this.#receive(message));
    this.exited = new Promise((resolve) => {
      this.#child.on('error', (error) => {
        // Without an id it never began, and no exit will follow.
        if (this.#child.pid !== undefined) return;
        this.#ended(error.message);
        resolve();
      });
      this.#child.once('exit', (code, signal) => {
        const crashed = signal !== null && crashSignals.has(signal);
        this.wasKilledFromOutside = signal !== null && !crashed && this.#killReason === undefined;
        this.#ended(signal ?? `exit code ${code}`, crashed);
        resolve();
      });
    });
    this.#watch = setInterval(() => this.#look(), watchMs);
    this.#watch.unref();
    this.prepared = this.call('prepare', settings, { timeoutMs: prepareTimeoutMs });
    this.prepared.then(
      () => {
        this.#heeds = true;
      },
      () => undefined,
    );
  }

  /** Whether it takes calls: a process that was killed takes none, though it is not gone yet. */
  get alive(): boolean {
    return this.#alive && this.#killReason === undefined;
  }

  /** Whether somebody waits for it. */
  get busy(): boolean {
    return this.#pending.size > 0;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Takes over the files. Throws what preparing threw. */
  async attach(catalogs: readonly AttachRequest[]): Promise<Operations['prepare'][1] & Operations['attach'][1]> {
    const prepared = await this.prepared;
    this.#heeds = false;
    const attached = await this.call('attach', { catalogs }, { timeoutMs: attachTimeoutMs });
    this.#heeds = true;
    return { ...prepared, ...attached };
  }

  /** Ends a process that nobody needs, and whose files nobody waits for. */
  async discard(reason = gone()): Promise<void> {
    this.#stopping = true;
    this.#killReason ??= reason;
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  /** Throws what the engine threw; WAREHOUSE_FAILED where it ended meanwhile; STATEMENT_TIMEOUT; STATEMENT_CANCELLED. */
  call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    { signal, timeoutMs, progress }: CallOptions,
  ): Promise<Operations[K][1]> {
    if (!this.#alive || (this.#killReason && operation !== 'close'))
      return Promise.reject(withOutcome(this.#killReason ?? gone(), 'notApplied'));
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
          // Of a change, a text or rows are not to blame: it is not known to have been stopped in time.
          reject(blameable.has(operation) ? (this.#stopping ? uncertain(why) : blamedFor(uncertain(why))) : gone());
          this.kill('a statement did not end when it was told to', gone(), true);
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
        resolve: (value) => {
          end();
          resolve(value as Operations[K][1]);
        },
        reject: (error) => {
          end();
          // Whatever an interrupted statement ended with, it ended because it was told to.
          if (reason) reject(endedEngine(error) ? blamedFor(uncertain(reason)) : reason);
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

  /** Lets it close its files; kills it where that takes too long. `reason`: what running statements end with. */
  async stop(reason: Failure): Promise<void> {
    if (!this.#alive || this.#stopping || this.#killReason) return this.exited;
    this.#stopping = true;
    this.#killReason = reason;
    for (const pending of this.#pending.values()) pending.interrupt(reason);
    await this.call('close', undefined, { timeoutMs: stopTimeoutMs }).catch(() => undefined);
    this.#child.kill('SIGKILL');
    await this.exited;
  }

  /** `reason`: what the statements that run end with. */
  kill(why: string, reason: Failure, byStatement = false): void {
    if (!this.alive) return;
    this.#killReason = reason;
    this.#events.killed(why, byStatement);
    this.#child.kill('SIGKILL');
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
      this.#look();
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
        const why = `a fatal error of the engine: ${fault.message.split('\n', 1)[0]}`;
        setImmediate(() => this.kill(why, gone(), damage === undefined));
        if (damage !== undefined)
          return new Failure('CATALOG_DAMAGED', 'a catalog of the statement is damaged', {
            reason: damage,
            isFatal: true,
          });
        // What every statement fails with after a fatal error of another one.
        if (/database has been invalidated/.test(fault.message)) return gone();
        return operation === 'execute' || operation === 'bind' || operation === 'explain'
          ? blamedFor(new Failure('SQL_NOT_SUPPORTED', 'the engine cannot run this statement'))
          : new Failure('WAREHOUSE_FAILED', 'the engine failed', {}, { cause });
      }
      case 'error':
        return Object.assign(new Error(fault.message), fault.stack === undefined ? {} : { stack: fault.stack });
    }
  }

  /** Too much memory, or no sign of life: the limits that the engine itself keeps are soft. */
  #look(): void {
    if (!this.alive) return;
    // After a stop of this process itself (a suspended machine, a long collection), what the other said is still unread.
    if (performance.now() - this.#lookedAt > silenceMs / 2) this.#heardAt = performance.now();
    this.#lookedAt = performance.now();
    if (this.residentBytes > this.#residentBytesMax) {
      const statements = [...this.#pending.values()].filter((one) => blameable.has(one.operation));
      const culprit = statements.length === 1 ? statements[0] : undefined;
      // It ends when the process does: whoever asks again at once meets the next one.
      if (culprit)
        culprit.ending = blamedFor(
          uncertain(new Failure('MEMORY_LIMIT_EXCEEDED', 'the statement needs more memory than the warehouse allows')),
        );
      this.kill(
        `${this.residentBytes} resident bytes are more than ${this.#residentBytesMax}`,
        gone(),
        statements.length > 0,
      );
    } else if (this.#heeds && performance.now() - this.#heardAt > silenceMs) {
      this.#isSilent = true;
      this.kill(`silent for ${silenceMs} ms`, gone());
    }
  }

  /** `crashed`: by its own fault. */
  #ended(how: string, crashed = false): void {
    if (!this.#alive) return;
    this.#alive = false;
    clearInterval(this.#watch);
    const reason = this.#killReason ?? gone();
    const all = [...this.#pending.values()];
    const lostAlone = this.#lossOfOnlyCall(crashed);
    for (const pending of all) {
      const ranAlone = all.length === 1 && blameable.has(pending.operation);
      pending.reject(pending.ending ?? (ranAlone ? lostAlone : undefined) ?? reason);
    }
    if (!this.#stopping) this.#events.died(how);
  }

  /** What a call ends with that ran alone; undefined where the end of the process is certainly not its fault. */
  #lossOfOnlyCall(crashed: boolean): Failure | undefined {
    const isOwnFault = crashed || this.#isSilent;
    // Where statements run beside each other, none is blamed for a first crash; one that crashes the next process too is.
    if (!this.#runsOneCall) return isOwnFault ? engineLost(false, true) : undefined;
    if (!isOwnFault && this.#killReason) return undefined;
    // Somebody else ended it, perhaps by mistake: one death proves nothing, unless the system was short of the memory that it had taken.
    const isInnocent = this.wasKilledFromOutside && this.residentBytes <= this.#memoryLimitBytes;
    return isInnocent ? engineLost(false, true) : engineLost(true);
  }
}

const gone = () => engineLost(false);
/** Of a statement that was killed, which may have come after its commit: an idempotency key stays then. */
const uncertain = ({ code, message, result, retryAfterSeconds }: Failure) =>
  new Failure(code, message, result, { retryAfterSeconds, outcome: 'unknown' });
const cancelled = () => new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
const timedOut = (ms: number) =>
  new Failure('STATEMENT_TIMEOUT', `the statement ran longer than ${ms / 1000} s and was stopped`, {
    timeoutSeconds: ms / 1000,
  });
