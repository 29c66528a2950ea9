// One warehouse on DuckDB: starts and stops its process, and implements the methods of the port as calls to it.
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../model/records.ts';
import { Failure, withOutcome } from '../../standard/failure.ts';
import type { AdmissionRequest } from '../admission.ts';
import type { AttachRequest, CatalogFault } from '../catalog_storage.ts';
import type {
  BackendStatus,
  CatalogRef,
  ConfinementMeasure,
  EngineWarehouse,
  EngineWarehouseOptions,
  ExecuteOptions,
  ReportProgress,
  Statement,
  TableName,
  TableRef,
  WorkOptions,
} from '../engine.ts';
import { EngineLost } from '../engine_lost.ts';
import { filesDirectory } from '../export.ts';
import type { FileLoad, FileLoadResult } from '../load.ts';
import type { Snapshot } from '../snapshot.ts';
import { AnalysisProcesses } from './analysis/analysis_processes.ts';
import { changingToken } from './analysis/named_objects.ts';
import type { LoadPlan } from './load/load_plan.ts';
import { EngineProcess } from './process/engine_process.ts';
import { type OperationName, type Operations, rowsFile, type WireStatement } from './process/protocol.ts';
import { RestartDelay } from './process/restart_delay.ts';
import { SpareProcess } from './process/spare_process.ts';
import { activeOf, type Confinement, inactiveOf, type Launch } from './sandbox/sandbox.ts';
import { parseCreateView } from './sql/parse_create_view.ts';
import { scanTableNames } from './sql/table_name_scan.ts';
import { catalogsDirectory } from './storage/catalog_files.ts';
import { DiskUsage } from './storage/disk_usage.ts';

const shortTimeoutMs = 60_000;
const changeTimeoutMs = 24 * 3600 * 1000;
/** Memory limit of a process that binds and parses. */
const analysisMemoryBytesMax = 1024 ** 3;
/** All parsing of definitions counts as one principal for fair scheduling. */
const definitionsPrincipal = { id: 'definitions' };
/** How many kills from outside are tolerated while a process opens files, before the file is held responsible. */
const outsideKillsMax = 2;

export interface DuckdbOptions {
  /** Isolation of the engine process from the rest of the machine. */
  readonly confinement: Confinement;
  /** Whether a spare process is prepared that takes over when the current one ends. */
  readonly spareEngine?: boolean;
  /** The time limit for binding and parsing. They cannot be interrupted: when it expires, the process is killed. */
  readonly analysisTimeoutMs: number;
}

export class DuckdbWarehouse implements EngineWarehouse {
  readonly #options: EngineWarehouseOptions;
  readonly #confinement: Confinement;
  readonly #analysisTimeoutMs: number;
  #spec: WarehouseSpec;
  #process: EngineProcess | undefined;
  #starting: Promise<void> | undefined;
  #version: string | null = null;
  #measures: readonly ConfinementMeasure[] = [];
  #lastStartAt: string | null = null;
  #error: string | null = null;
  #shouldRun = false;
  readonly #restartDelay = new RestartDelay();
  #isKilledByStatement = false;
  #restartWhenIdle = false;
  #snapshots = 0;
  /** Removal of the files of failed statements, while it runs: a repeated statement writes files of the same names. */
  #removing: Promise<unknown> | undefined;
  /** Ends the delay before a start, because the start is no longer needed. */
  #skipDelay: (() => void) | undefined;
  /** Resolves when the previous process has released the files. */
  #previousExited: Promise<unknown> = Promise.resolve();
  readonly #disk: DiskUsage;
  readonly #analysis = new AnalysisProcesses({
    launch: () => this.#launchAnalysis(),
    settings: () =>
      this.#settings({
        ...this.#spec,
        memoryLimitBytes: Math.min(this.#spec.memoryLimitBytes, analysisMemoryBytesMax),
      }),
    died: (pid, reason) => this.#options.observe({ kind: 'analysisDied', warehouse: this.#options.name, pid, reason }),
  });
  /** Tables written since the last `takeChangedTables`. */
  readonly #changed = new Map<string, TableName>();
  /** Undefined if spare processes are disabled. */
  readonly #spare: SpareProcess | undefined;

  constructor(options: EngineWarehouseOptions, { confinement, spareEngine = false, analysisTimeoutMs }: DuckdbOptions) {
    this.#options = options;
    this.#confinement = confinement;
    this.#analysisTimeoutMs = analysisTimeoutMs;
    this.#spec = options.spec;
    this.#disk = new DiskUsage(options.dataDirectory, options.catalogs);
    const { name: warehouse, observe } = options;
    if (!spareEngine) return;
    this.#spare = new SpareProcess({
      launch: () => this.#launchProcess(),
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
    this.#analysis.start();
    if (this.running) return Promise.resolve();
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async stop(): Promise<void> {
    this.#shouldRun = false;
    this.#skipDelay?.();
    await Promise.all([this.#stopProcess(), this.#spare?.stop(), this.#analysis.stop(suspendedFailure())]);
    await this.#starting?.catch(() => undefined);
    if (!this.#shouldRun) await Promise.all([this.#stopProcess(), this.#spare?.stop()]);
    await this.#removing;
  }

  async configure(spec: WarehouseSpec): Promise<void> {
    const previous = this.#spec;
    this.#spec = spec;
    const isUnchanged =
      previous.threads === spec.threads &&
      previous.memoryLimitBytes === spec.memoryLimitBytes &&
      previous.spillLimitBytes === spec.spillLimitBytes;
    if (isUnchanged) return;
    this.#spare?.replace();
    this.#analysis.renew();
    // The settings of a running engine are locked: only a new process applies changes. A start in progress restarts when it ends.
    this.#restartWhenIdle = true;
    await this.#restartIfIdle();
  }

  status(): BackendStatus {
    const process = this.running ? this.#process : undefined;
    return {
      alive: process !== undefined,
      version: this.#version,
      cpuCores: availableParallelism(),
      memoryUsedBytes: process?.residentBytes ?? 0,
      memoryLimitBytes: this.#spec.memoryLimitBytes,
      ...this.#disk.last,
      spilledBytes: process?.spilledBytes ?? 0,
      runningQueries: process?.runningStatements ?? 0,
      lastStartAt: this.#lastStartAt,
      lastHeartbeatAt: process ? new Date(process.lastHeartbeatAt).toISOString() : null,
      errorMessage: this.#error,
      confinement: this.#measures,
    };
  }

  cost = (change: Operations['cost'][0]) => this.#call('cost', change, shortTimeoutMs);
  forget = async (catalog: Operations['forget'][0]['catalog'], steps: readonly string[]) => {
    await this.#call('forget', { catalog, steps }, shortTimeoutMs);
  };
  parseCreateTable = (sql: string) => this.#parse('parseCreateTable', sql);
  buildStatement = (write: Operations['buildStatement'][0]) => this.#parse('buildStatement', write);
  checkDefault = async (expression: string, type: Operations['checkDefault'][0]['type']) => {
    await this.#parse('checkDefault', { expression, type });
  };
  optimize = async (table: TableRef, { signal, progress }: WorkOptions) => {
    await this.#call('optimize', table, changeTimeoutMs, signal, progress);
  };
  rowNumbering = (table: TableRef, definition: TableDefinition) =>
    this.#call('rowNumbering', { table, definition }, shortTimeoutMs);
  tableStatistics = (table: TableRef) => this.#call('tableStatistics', table, shortTimeoutMs);
  compareTables = (catalog: CatalogRef, expected: readonly ExpectedTable[], { signal }: Cancellable) =>
    this.#call('compareTables', { catalog, expected }, shortTimeoutMs, signal);
  readWholeTable = (table: TableRef, { signal }: Cancellable) =>
    this.#call('readWholeTable', table, changeTimeoutMs, signal);
  tableNamesIn = (sql: string) => scanTableNames(sql);
  parseCreateView = (sql: string) => parseCreateView(sql);
  readView = (statement: Statement & { readonly database: string }) =>
    this.#call('readView', { ...toWireStatement(statement), database: statement.database }, this.#analysisTimeoutMs);
  analyze = async (statement: Statement, request: AdmissionRequest) => {
    const wireStatement = toWireStatement(statement);
    const objects = await this.#call('namedObjects', wireStatement, shortTimeoutMs);
    const options = { request, timeoutMs: this.#analysisTimeoutMs };
    try {
      return await this.#withoutEffects(this.#analysis.call('bind', { statement: wireStatement, objects }, options));
    } catch (error) {
      // A name may be missing only because its object was being changed each time the names were resolved.
      if (objects.token !== changingToken || !(error instanceof Failure) || error.code !== 'SQL_INVALID') throw error;
      throw new Failure(
        'WAREHOUSE_BUSY',
        'the tables of the statement are being changed; try again',
        {},
        { cause: error },
      );
    }
  };
  describe = (statement: Statement) => this.#call('describe', toWireStatement(statement), this.#analysisTimeoutMs);
  explain = (statement: Statement) => this.#call('explain', toWireStatement(statement), this.#analysisTimeoutMs);

  async apply(
    change: Operations['apply'][0]['change'],
    { step, signal, progress }: WorkOptions & { readonly step: string },
  ): Promise<Operations['apply'][1]> {
    const applied = await this.#call('apply', { change, step }, changeTimeoutMs, signal, progress);
    if ('table' in change && change.kind !== 'dropTable' && change.kind !== 'hideTable')
      this.#markChanged(tableNameOf(change.table, 'newName' in change ? change.newName : undefined));
    return applied;
  }

  async execute(statement: Statement, { signal, progress, timeoutMs, analysis, ...options }: ExecuteOptions) {
    const { reads, writes, views, token } = analysis;
    const argument = {
      statement: toWireStatement(statement),
      options: { ...options, token, tables: [...reads, ...writes, ...views] },
      writes,
      inserts: analysis.kind === 'insert',
    };
    if (this.#removing) await this.#removing;
    try {
      return await this.#call('execute', argument, timeoutMs, signal, progress);
    } catch (error) {
      // Not awaited here: after a fatal error the caller sets the damaged catalog aside, which must happen before the next process
      // opens its files.
      const removing = Promise.all([this.#removing, removeFiles(options.resultPath)]).then(() => {
        if (this.#removing === removing) this.#removing = undefined;
      });
      this.#removing = removing;
      throw error;
    } finally {
      // A write that failed may still have been committed, if the process ended before it could report that.
      for (const table of writes) this.#markChanged(table);
    }
  }

  recordStep = (resultPath: string, step: string) => this.#call('recordStep', { resultPath, step }, shortTimeoutMs);

  async insertRows(
    table: TableRef,
    batch: Operations['insertRows'][0]['batch'],
    options: Parameters<EngineWarehouse['insertRows']>[2],
  ): Promise<number> {
    const count = await this.#call(
      'insertRows',
      { table, batch, definition: options.definition, steps: options.steps },
      changeTimeoutMs,
      options.signal,
    );
    this.#markChanged(tableNameOf(table));
    return count;
  }

  inferTable = (work: Operations['inferTable'][0], request: AdmissionRequest) => {
    const timeoutMs = work.isWhole ? changeTimeoutMs : shortTimeoutMs;
    return this.#withoutEffects(this.#analysis.call('inferTable', work, { request, timeoutMs }));
  };

  rowsLoadedByStep = (catalog: Operations['rowsLoadedByStep'][0]['catalog'], step: string) =>
    this.#call('rowsLoadedByStep', { catalog, step }, shortTimeoutMs);

  async load(work: FileLoad, { progress, ...request }: WorkOptions & AdmissionRequest): Promise<FileLoadResult> {
    const plan = await this.#planLoad(work, request);
    if ('repeated' in plan) return plan;
    try {
      return await this.#call('load', { work, plan }, changeTimeoutMs, request.signal, progress);
    } finally {
      // The load may still have been committed, if the process ended before it could report that.
      this.#markChanged(tableNameOf(work.table));
    }
  }

  /** Returns the result instead if there is nothing to plan: the load was done before, and its file may have been removed since. */
  async #planLoad(work: FileLoad, request: AdmissionRequest): Promise<LoadPlan | FileLoadResult> {
    try {
      const options = { request, timeoutMs: changeTimeoutMs };
      return await this.#withoutEffects(this.#analysis.call('planLoad', work, options));
    } catch (error) {
      const isOnce = !work.dryRun && work.errorsMax === 0;
      const rowsLoaded = isOnce ? await this.rowsLoadedByStep(work.table.catalog, work.step) : undefined;
      if (rowsLoaded === undefined) throw error;
      return { rowsLoaded, rowsRejected: 0, repeated: true };
    }
  }

  async restorePart(part: Operations['restorePart'][0], { signal }: { readonly signal: AbortSignal }) {
    await this.#call('restorePart', part, changeTimeoutMs, signal);
  }

  /** While a snapshot is open the process is not restarted to apply new limits. */
  async snapshot(
    catalog: CatalogRef,
    { signal, keepsFile = false }: Parameters<EngineWarehouse['snapshot']>[1],
  ): Promise<Snapshot> {
    const id = await this.#call('beginSnapshot', { catalog, keepsFile }, shortTimeoutMs, signal);
    const process = this.#process;
    this.#snapshots++;
    let isOpen = true;
    return {
      parts: (table, abort) => this.#call('snapshotParts', { id, table }, changeTimeoutMs, abort),
      write: (table, part, path, abort) =>
        this.#call('writeSnapshotPart', { id, table, part, path }, changeTimeoutMs, abort),
      close: async () => {
        if (!isOpen) return;
        isOpen = false;
        this.#snapshots--;
        // The snapshot ended together with its process.
        if (process?.alive && process === this.#process)
          await this.#call('endSnapshot', id, shortTimeoutMs).catch(() => undefined);
      },
    };
  }

  async checkFile(
    catalog: AttachRequest,
    expected: readonly ExpectedTable[],
    { signal }: Cancellable,
  ): Promise<readonly CatalogFault[]> {
    // The file may have been replaced: the engine would overwrite it with the data of the file that it has open.
    if (await this.#call('isAttached', catalog, shortTimeoutMs, signal))
      return [
        { kind: 'damaged', reason: 'the engine still has the previous file open: suspend and resume the warehouse' },
      ];
    const memoryLimitBytes = Math.min(this.#spec.memoryLimitBytes, analysisMemoryBytesMax);
    const events = { died: () => undefined, killed: () => undefined, attached: () => undefined };
    const settings = this.#settings({ ...this.#spec, memoryLimitBytes });
    const process = new EngineProcess(await this.#launch(), settings, events, { runsOneCall: true });
    try {
      await process.prepared;
      return await process.call('checkFile', { catalog, expected }, { timeoutMs: changeTimeoutMs, signal });
    } catch (error) {
      if (process.alive || process.wasKilledFromOutside || signal.aborted) throw error;
      return [{ kind: 'damaged', reason: 'the engine stopped while it read its file' }];
    } finally {
      await process.discard();
    }
  }

  async attach(catalog: AttachRequest): Promise<void> {
    const process = this.#process;
    if (!process?.alive || this.#starting)
      throw new Failure('WAREHOUSE_STARTING', 'the engine of the warehouse is starting');
    const { written } = await process.attach([catalog]);
    for (const table of written) this.#markChanged(table);
  }

  takeChangedTables(): readonly TableName[] {
    const tables = [...this.#changed.values()];
    this.#changed.clear();
    return tables;
  }

  #markChanged(table: TableName): void {
    this.#changed.set(JSON.stringify([table.catalog, table.database, table.table]), table);
  }

  #parse<K extends OperationName>(operation: K, argument: Operations[K][0]): Promise<Operations[K][1]> {
    const request = { principal: definitionsPrincipal, signal: new AbortController().signal };
    return this.#withoutEffects(
      this.#analysis.call(operation, argument, { request, timeoutMs: this.#analysisTimeoutMs }),
    );
  }

  /** Marks failures as not applied: a process without files cannot change anything. */
  async #withoutEffects<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      throw withOutcome(error, 'notApplied');
    }
  }

  async #call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    timeoutMs: number,
    signal?: AbortSignal,
    progress?: ReportProgress,
  ): Promise<Operations[K][1]> {
    const process = this.#process;
    if (!process?.alive || this.#starting) {
      if (!this.#shouldRun)
        throw new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran');
      const cause = new EngineLost({ isToBlame: false });
      throw new Failure('WAREHOUSE_STARTING', 'the engine of the warehouse is starting', {}, { cause });
    }
    try {
      const answer = await process.call(operation, argument, { timeoutMs, signal, progress });
      if (this.#shouldRun) this.#spare?.want();
      return answer;
    } catch (error) {
      throw isWriting(operation, argument) ? error : withOutcome(error, 'notApplied');
    } finally {
      if (this.#restartWhenIdle) void this.#restartIfIdle();
    }
  }

  /** Starts the process, and again if the limits changed meanwhile. */
  async #start(): Promise<void> {
    for (;;) {
      this.#restartWhenIdle = false;
      await this.#startProcess();
      if (!this.#restartWhenIdle || !this.#shouldRun) return;
      await this.#stopProcess();
    }
  }

  async #startProcess(): Promise<void> {
    const started = performance.now();
    const { name, observe } = this.#options;
    // A ready spare takes over at once: the time that its replacement takes to start limits how often that happens.
    const pause = this.#spare?.isReady === true ? 0 : this.#restartDelay.ms;
    if (pause > 0) await this.#delay(pause);
    await this.#previousExited;
    // A file on which the engine crashes is left out, and the others are attached.
    const fatal = new Set<string>();
    for (let kills = 0; ; ) {
      const listed = await (this.#options.toAttach ?? this.#options.catalogs)();
      const sound = listed.filter(({ id }) => !fatal.has(id));
      const failed = await this.#open(sound, kills < outsideKillsMax);
      if (failed === undefined) break;
      if (failed.culprit === undefined) kills++;
      else fatal.add(failed.culprit);
      await this.#previousExited;
    }
    this.#error = null;
    this.#lastStartAt = new Date().toISOString();
    const pid = this.#process?.pid ?? 0;
    const confinement = activeOf(this.#measures);
    observe({ kind: 'engineStarted', warehouse: name, ms: performance.now() - started, confinement, pid });
  }

  /**
   * @returns undefined on success; an object if the process ended and the caller must try again. `culprit`: the id of the catalog
   * whose file crashed the process; absent if the process was killed from outside, which is tolerated if `toleratesKill` is set.
   * Throws if the engine does not start at all.
   */
  async #open(catalogs: readonly AttachRequest[], forgives: boolean): Promise<{ culprit?: string } | undefined> {
    const { attached } = this.#options;
    const process = this.#spare?.take() ?? (await this.#launchProcess());
    if (!this.#shouldRun) {
      await process.discard();
      throw withOutcome(suspendedFailure(), 'notApplied');
    }
    this.#process = process;
    this.#previousExited = process.exited;
    try {
      const { version, written } = await process.attach(catalogs);
      this.#version = version;
      for (const table of written) this.#markChanged(table);
      return undefined;
    } catch (error) {
      if (!this.#shouldRun) throw withOutcome(suspendedFailure(), 'notApplied');
      if (process.wasKilledFromOutside && forgives) return {};
      const catalog = process.attaching;
      const failure = this.#startFailure(`the engine cannot open its files: ${(error as Error).message}`, error);
      process.kill('the engine cannot open its files', failure);
      if (catalog === undefined) throw failure;
      attached?.({ kind: 'fatal', catalog, reason: 'the engine stopped while it opened its file' });
      return { culprit: catalog.id };
    }
  }

  /** Launches a process that prepares itself with the current settings. */
  async #launchProcess(): Promise<EngineProcess> {
    const { name, observe, attached } = this.#options;
    const launch = await this.#launch();
    const process: EngineProcess = new EngineProcess(launch, this.#settings(this.#spec), {
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

  #settings(spec: WarehouseSpec): Operations['prepare'][0] {
    const { dataDirectory, spoolDirectory, readableDirectories = [] } = this.#options;
    return { spec, dataDirectory, spoolDirectory, readableDirectories };
  }

  /** How to launch a process that cannot see the files of catalogs. */
  #launchAnalysis(): Promise<Launch> {
    const { dataDirectory, spoolDirectory, readableDirectories = [] } = this.#options;
    return this.#confinement.launch({ data: dataDirectory, writable: [spoolDirectory], readable: readableDirectories });
  }

  async #launch(): Promise<Launch> {
    const { name, dataDirectory, spoolDirectory, readableDirectories = [], observe } = this.#options;
    try {
      const writable = [catalogsDirectory(dataDirectory), spoolDirectory];
      const launch = await this.#confinement.launch({ data: dataDirectory, writable, readable: readableDirectories });
      this.#measures = launch.confinement;
      const reason = inactiveOf(launch.confinement);
      if (reason !== '')
        this.#confinement.reportOnce(() => observe({ kind: 'engineUnconfined', warehouse: name, reason }));
      return launch;
    } catch (error) {
      throw this.#startFailure((error as Error).message, error);
    }
  }

  #startFailure(reason: string, cause: unknown): Failure {
    this.#error = 'the engine does not start';
    this.#options.observe({ kind: 'engineDied', warehouse: this.#options.name, reason });
    const message = 'the engine of the warehouse does not start';
    return new Failure('WAREHOUSE_FAILED', message, {}, { cause, outcome: 'notApplied' });
  }

  async #delay(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#skipDelay = resolve;
    const timer = setTimeout(resolve, ms);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#skipDelay = undefined;
    }
  }

  #handleDeath(process: EngineProcess, reason: string): void {
    this.#spare?.died(process, reason);
    if (this.#process !== process) return;
    // A statement that ended the process is not retried automatically: the next start need not be delayed for the others.
    if (!this.#isKilledByStatement) this.#restartDelay.died();
    this.#isKilledByStatement = false;
    this.#error = 'the engine stopped and is being started again';
    this.#options.observe({ kind: 'engineDied', warehouse: this.#options.name, reason });
    if (this.#shouldRun && !this.#starting) this.start().catch(() => undefined);
  }

  async #restartIfIdle(): Promise<void> {
    const process = this.#process;
    if (!process?.alive || process.busy || this.#snapshots > 0 || this.#starting) return;
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
    this.#options.observe({ kind: 'engineStopped', warehouse: this.#options.name });
  }
}

type Cancellable = Pick<WorkOptions, 'signal'>;

/** The outcome is unknown: the interrupt of a running statement may come too late. */
const suspendedFailure = () =>
  new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran', {}, { outcome: 'unknown' });

const writingOperations: ReadonlySet<OperationName> = new Set([
  'apply',
  'execute',
  'forget',
  'insertRows',
  'load',
  'optimize',
  'restorePart',
]);

/** Whether the operation may have changed data or definitions when it fails. */
function isWriting<K extends OperationName>(operation: K, argument: Operations[K][0]): boolean {
  if (operation === 'execute') return (argument as Operations['execute'][0]).writes.length > 0;
  return writingOperations.has(operation);
}

/** Failures are ignored: what remains is removed with the directory of the results. */
async function removeFiles(resultPath: string): Promise<void> {
  for (const path of [rowsFile(resultPath), filesDirectory(resultPath)])
    await rm(path, { recursive: true, force: true }).catch(() => undefined);
}

function toWireStatement({ parameters, ...statement }: Statement): WireStatement {
  return { ...statement, parameters: parameters === undefined ? undefined : JSON.stringify(parameters) };
}

function tableNameOf({ catalog, database, table }: TableRef, newName = table): TableName {
  return { catalog: catalog.name, database, table: newName };
}
