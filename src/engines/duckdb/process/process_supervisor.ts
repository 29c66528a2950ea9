// The life of the process of a warehouse that has the files of its catalogs: started, started again after its death and with new
// limits, replaced by a spare one, stopped. See warehouse.ts for what it is asked to do.
import { withTimeout } from '../../../model/concurrency/bounded_waits.ts';
import { Failure, withOutcome } from '../../../standard/failure.ts';
import { EngineLost } from '../../engine_lost.ts';
import type { BackendStatus } from '../../port/backends.ts';
import type { AttachRequest } from '../../port/catalog_storage.ts';
import type { EngineWarehouseOptions } from '../../port/engine.ts';
import type { TableName } from '../../port/refs.ts';
import { activeOf } from '../sandbox/sandbox.ts';
import { type CallOptions, EngineProcess } from './engine_process.ts';
import type { ProcessLauncher } from './process_launcher.ts';
import type { OperationName, Operations } from './protocol.ts';
import { RestartDelay } from './restart_delay.ts';
import { SpareProcess } from './spare_process.ts';

/** How many kills from outside are tolerated while a process opens files, before the file is held responsible. */
const outsideKillsMax = 2;

export interface ProcessSupervisorOptions {
  readonly warehouse: EngineWarehouseOptions;
  readonly launcher: ProcessLauncher;
  /** Whether a spare process is prepared that takes over when the current one ends. */
  readonly spareEngine: boolean;
  /** Called with tables that were written before the process ended and have been recovered since. */
  readonly written: (tables: readonly TableName[]) => void;
}

export class ProcessSupervisor {
  readonly #options: ProcessSupervisorOptions;
  readonly #warehouse: EngineWarehouseOptions;
  readonly #launcher: ProcessLauncher;
  #process: EngineProcess | undefined;
  #starting: Promise<void> | undefined;
  #version: string | null = null;
  #lastStartAt: string | null = null;
  #error: string | null = null;
  #shouldRun = false;
  readonly #restartDelay = new RestartDelay();
  #isKilledByStatement = false;
  #restartWhenIdle = false;
  /** How many callers need the current process to remain, although new limits are waiting to be applied. */
  #holds = 0;
  /** Ends the delay before a start, because the start is no longer needed. */
  #skipDelay: (() => void) | undefined;
  /** Resolves when the previous process has released the files. */
  #previousExited: Promise<unknown> = Promise.resolve();
  /** Undefined if spare processes are disabled. */
  readonly #spare: SpareProcess | undefined;

  constructor(options: ProcessSupervisorOptions) {
    this.#options = options;
    this.#warehouse = options.warehouse;
    this.#launcher = options.launcher;
    const { name: warehouse, observe } = options.warehouse;
    if (!options.spareEngine) return;
    this.#spare = new SpareProcess({
      launch: () => this.#launch(),
      isBusy: () => this.#starting !== undefined || this.#process?.busy === true,
      ready: (pid, ms) => observe({ kind: 'engineSpareReady', warehouse, pid, ms }),
      lost: (reason) => observe({ kind: 'engineSpareLost', warehouse, reason }),
    });
  }

  get running(): boolean {
    return this.#process?.alive === true && this.#starting === undefined;
  }

  start(): Promise<void> {
    this.#shouldRun = true;
    if (this.running) return Promise.resolve();
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async stop(): Promise<void> {
    this.#shouldRun = false;
    this.#skipDelay?.();
    await Promise.all([this.#stopProcess(), this.#spare?.stop()]);
    await this.#starting?.catch(() => undefined);
    if (!this.#shouldRun) await Promise.all([this.#stopProcess(), this.#spare?.stop()]);
  }

  /** The limits of the warehouse changed. The settings of a running engine are locked: only a new process applies changes. */
  async applyLimits(): Promise<void> {
    this.#spare?.replace();
    // A start in progress restarts when it ends.
    this.#restartWhenIdle = true;
    await this.#restartIfIdle();
  }

  status(): Omit<BackendStatus, 'cpuCores' | 'dataUsedBytes' | 'diskAvailableBytes' | 'diskTotalBytes'> {
    const process = this.running ? this.#process : undefined;
    return {
      alive: process !== undefined,
      version: this.#version,
      memoryUsedBytes: process?.residentBytes ?? 0,
      memoryLimitBytes: this.#launcher.spec.memoryLimitBytes,
      spilledBytes: process?.spilledBytes ?? 0,
      runningQueries: process?.runningStatements ?? 0,
      lastStartAt: this.#lastStartAt,
      lastHeartbeatAt: process ? new Date(process.lastHeartbeatAt).toISOString() : null,
      errorMessage: this.#error,
      confinement: this.#launcher.measures,
    };
  }

  /** Throws what the operation throws, WAREHOUSE_STARTING, WAREHOUSE_SUSPENDED. */
  async call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    options: CallOptions,
  ): Promise<Operations[K][1]> {
    const process = this.#process;
    if (!process?.alive || this.#starting) {
      if (!this.#shouldRun)
        throw new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran');
      const cause = new EngineLost({ isToBlame: false });
      throw new Failure('WAREHOUSE_STARTING', 'the engine of the warehouse is starting', {}, { cause });
    }
    try {
      const answer = await process.call(operation, argument, options);
      if (this.#shouldRun) this.#spare?.want();
      return answer;
    } catch (error) {
      throw isWriting(operation, argument) ? error : withOutcome(error, 'notApplied');
    } finally {
      if (this.#restartWhenIdle) void this.#restartIfIdle();
    }
  }

  /** Attaches one more catalog to the running process. */
  async attach(catalog: AttachRequest): Promise<void> {
    const process = this.#process;
    if (!process?.alive || this.#starting)
      throw new Failure('WAREHOUSE_STARTING', 'the engine of the warehouse is starting');
    const { written } = await process.attach([catalog]);
    this.#options.written(written);
  }

  /**
   * Until `release` is called, the process is not restarted to apply new limits. `isCurrent`: whether it is still the process of the
   * warehouse.
   */
  hold(): { readonly isCurrent: () => boolean; readonly release: () => void } {
    const process = this.#process;
    this.#holds++;
    return {
      isCurrent: () => process?.alive === true && process === this.#process,
      release: () => {
        this.#holds--;
      },
    };
  }

  /** Starts the process, and again if the limits changed meanwhile. */
  async #start(): Promise<void> {
    for (;;) {
      this.#restartWhenIdle = false;
      try {
        await this.#startProcess();
      } catch (error) {
        this.#error = 'the engine does not start';
        throw error;
      }
      if (!this.#restartWhenIdle || !this.#shouldRun) return;
      await this.#stopProcess();
    }
  }

  async #startProcess(): Promise<void> {
    const started = performance.now();
    const { name, observe } = this.#warehouse;
    // A ready spare takes over at once: the time that its replacement takes to start limits how often that happens.
    const pause = this.#spare?.isReady === true ? 0 : this.#restartDelay.ms;
    if (pause > 0) await this.#delay(pause);
    await this.#previousExited;
    // A file on which the engine crashes is left out, and the others are attached.
    const fatal = new Set<string>();
    for (let kills = 0; ; ) {
      const listed = await (this.#warehouse.toAttach ?? this.#warehouse.catalogs)();
      const attachable = listed.filter(({ id }) => !fatal.has(id));
      const failed = await this.#open(attachable, kills < outsideKillsMax);
      if (failed === undefined) break;
      if (failed.culprit === undefined) kills++;
      else fatal.add(failed.culprit);
      await this.#previousExited;
    }
    this.#error = null;
    this.#lastStartAt = new Date().toISOString();
    const pid = this.#process?.pid ?? 0;
    const confinement = activeOf(this.#launcher.measures);
    observe({ kind: 'engineStarted', warehouse: name, ms: performance.now() - started, confinement, pid });
  }

  /**
   * @returns undefined on success; an object if the process ended and the caller must try again. `culprit`: the id of the catalog
   * whose file crashed the process; absent if the process was killed from outside, which is tolerated if `toleratesKill` is set.
   * Throws if the engine does not start at all.
   */
  async #open(catalogs: readonly AttachRequest[], toleratesKill: boolean): Promise<{ culprit?: string } | undefined> {
    const process = this.#spare?.take() ?? (await this.#launch());
    if (!this.#shouldRun) {
      await process.discard();
      throw withOutcome(suspendedFailure(), 'notApplied');
    }
    this.#process = process;
    this.#previousExited = process.exited;
    try {
      const { version, written } = await process.attach(catalogs);
      this.#version = version;
      this.#options.written(written);
      return undefined;
    } catch (error) {
      if (!this.#shouldRun) throw withOutcome(suspendedFailure(), 'notApplied');
      if (process.wasKilledFromOutside && toleratesKill) return {};
      const catalog = process.attaching;
      const reason = `the engine cannot open its files: ${(error as Error).message}`;
      const failure = this.#launcher.startFailure(reason, error);
      process.kill('the engine cannot open its files', failure);
      if (catalog === undefined) throw failure;
      this.#warehouse.attached?.({ kind: 'fatal', catalog, reason: 'the engine stopped while it opened its file' });
      return { culprit: catalog.id };
    }
  }

  /** Launches a process that prepares itself with the current limits. */
  async #launch(): Promise<EngineProcess> {
    const { name, observe, attached } = this.#warehouse;
    const launch = await this.#launcher.launchWithFiles();
    const process: EngineProcess = new EngineProcess(launch, this.#launcher.settings(), {
      died: (reason) => this.#handleDeath(process, reason),
      killed: (reason, byStatement) => {
        if (this.#process !== process) return;
        this.#isKilledByStatement = byStatement;
        observe({ kind: 'engineKilled', warehouse: name, reason });
      },
      attached: (report) => attached?.(report),
    });
    return process;
  }

  async #delay(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#skipDelay = resolve;
    await withTimeout(promise, ms);
    this.#skipDelay = undefined;
  }

  #handleDeath(process: EngineProcess, reason: string): void {
    this.#spare?.died(process, reason);
    if (this.#process !== process) return;
    // A statement that ended the process is not retried automatically: the next start need not be delayed for the others.
    if (!this.#isKilledByStatement) this.#restartDelay.died();
    this.#isKilledByStatement = false;
    this.#error = 'the engine stopped and is being started again';
    this.#warehouse.observe({ kind: 'engineDied', warehouse: this.#warehouse.name, reason });
    if (this.#shouldRun && !this.#starting) this.start().catch(() => undefined);
  }

  async #restartIfIdle(): Promise<void> {
    const process = this.#process;
    if (!process?.alive || process.busy || this.#holds > 0 || this.#starting) return;
    this.#starting = this.#stopProcess()
      .then(() => this.#start())
      .finally(() => {
        this.#starting = undefined;
      });
    await this.#starting;
  }

  async #stopProcess(): Promise<void> {
    const process = this.#process;
    this.#process = undefined;
    if (!process) return;
    if (process.alive) this.#restartDelay.stopped();
    await process.stop(suspendedFailure());
    this.#warehouse.observe({ kind: 'engineStopped', warehouse: this.#warehouse.name });
  }
}

/** The outcome is unknown: the interrupt of a running statement may come too late. */
export const suspendedFailure = () =>
  new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran', {}, { outcome: 'unknown' });

const writingOperations: ReadonlySet<OperationName> = new Set([
  'apply',
  'execute',
  'forget',
  'insertRows',
  'load',
  'optimize',
  'recordSteps',
  'restorePart',
]);

/** Whether the operation may have changed data or definitions when it fails. */
function isWriting<K extends OperationName>(operation: K, argument: Operations[K][0]): boolean {
  if (operation === 'execute') return (argument as Operations['execute'][0]).writes.length > 0;
  return writingOperations.has(operation);
}
