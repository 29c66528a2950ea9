// One warehouse on DuckDB: its process brought up and down, and the port's methods as calls to it.
import { readdir, rm, stat, statfs } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../model/records.ts';
import { Failure, withOutcome } from '../../standard/failure.ts';
import type { Turn } from '../admission.ts';
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
import type { Snapshot } from '../snapshot.ts';
import { AnalysisProcesses } from './analysis/analysis_processes.ts';
import { changingToken } from './analysis/named_objects.ts';
import { EngineProcess } from './process/engine_process.ts';
import { type OperationName, type Operations, rowsFile, type WireStatement } from './process/protocol.ts';
import { RestartDelay } from './process/restart_delay.ts';
import { SpareProcess } from './process/spare_process.ts';
import { activeOf, type Confinement, inactiveOf, type Launch } from './sandbox/sandbox.ts';
import { parseCreateView } from './sql/parse_create_view.ts';
import { scanTableNames } from './sql/table_name_scan.ts';
import { catalogsDirectory } from './storage/catalog_files.ts';

/** The binder heeds no interrupt: what it cannot do by then costs the process. */
const analysisTimeoutMs = 10_000;
const shortTimeoutMs = 60_000;
const changeTimeoutMs = 24 * 3600 * 1000;
const diskLookMs = 5_000;
/** Of a process that binds and parses. */
const analysisMemoryBytesMax = 1024 ** 3;
/** Changes of definitions share their turns among them, as one principal. */
const ofDefinitions = { id: 'definitions' };
/** So often a process is killed by others while it opens the files before that is held against the file. */
const outsideKillsMax = 2;

export interface DuckdbOptions {
  /** Of the engine process, from the rest of the machine. */
  readonly confinement: Confinement;
  /** Whether a process is prepared ahead, to take over when the one that serves ends. */
  readonly spareEngine?: boolean;
}

export class DuckdbWarehouse implements EngineWarehouse {
  readonly #options: EngineWarehouseOptions;
  readonly #confinement: Confinement;
  #spec: WarehouseSpec;
  #process: EngineProcess | undefined;
  #starting: Promise<void> | undefined;
  #version: string | null = null;
  #measures: readonly ConfinementMeasure[] = [];
  #lastStartAt: string | null = null;
  #error: string | null = null;
  #wanted = false;
  readonly #restartDelay = new RestartDelay();
  #isKilledByStatement = false;
  #restartWhenIdle = false;
  #snapshots = 0;
  /** Ends the pause before a start, because nobody wants it any more. */
  #hurry: (() => void) | undefined;
  /** Resolves when the process before this one has let the files go. */
  #gone: Promise<unknown> = Promise.resolve();
  #disk = { dataUsedBytes: 0, diskAvailableBytes: 0, diskTotalBytes: 0 };
  #diskLookedAt = Number.NEGATIVE_INFINITY;
  readonly #analysis = new AnalysisProcesses({
    launch: () => this.#launchAnalysis(),
    settings: () =>
      this.#settings({
        ...this.#spec,
        memoryLimitBytes: Math.min(this.#spec.memoryLimitBytes, analysisMemoryBytesMax),
      }),
    died: (pid, reason) => this.#options.observe({ kind: 'analysisDied', warehouse: this.#options.name, pid, reason }),
  });
  /** Tables written since somebody asked. */
  readonly #changed = new Map<string, TableName>();
  /** Undefined where there is to be none. */
  readonly #spare: SpareProcess | undefined;

  constructor(options: EngineWarehouseOptions, { confinement, spareEngine = false }: DuckdbOptions) {
    this.#options = options;
    this.#confinement = confinement;
    this.#spec = options.spec;
    const { name: warehouse, observe } = options;
    if (!spareEngine) return;
    this.#spare = new SpareProcess({
      launch: () => this.#launched(),
      isBusy: () => this.#starting !== undefined || this.#process?.busy === true,
      ready: (pid, ms) => observe({ kind: 'engineSpareReady', warehouse, pid, ms }),
      lost: (reason) => observe({ kind: 'engineSpareLost', warehouse, reason }),
    });
  }

  get running(): boolean {
    return this.#process?.alive === true && this.#starting === undefined;
  }

  start(): Promise<void> {
    this.#wanted = true;
    this.#analysis.start();
    if (this.running) return Promise.resolve();
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async stop(): Promise<void> {
    this.#wanted = false;
    this.#hurry?.();
    await Promise.all([this.#stopProcess(), this.#spare?.stop(), this.#analysis.stop(suspendedMeanwhile())]);
    await this.#starting?.catch(() => undefined);
    if (!this.#wanted) await Promise.all([this.#stopProcess(), this.#spare?.stop()]);
  }

  async configure(spec: WarehouseSpec): Promise<void> {
    const before = this.#spec;
    this.#spec = spec;
    const same =
      before.threads === spec.threads &&
      before.memoryLimitBytes === spec.memoryLimitBytes &&
      before.spillLimitBytes === spec.spillLimitBytes;
    if (same) return;
    this.#spare?.replace();
    this.#analysis.renew();
    // The engine's own settings are locked: a process that starts anew takes them over. A start under way does so when it ends.
    this.#restartWhenIdle = true;
    await this.#restartIfIdle();
  }

  status(): BackendStatus {
    void this.#lookAtDisk();
    const process = this.running ? this.#process : undefined;
    return {
      alive: process !== undefined,
      version: this.#version,
      cpuCores: availableParallelism(),
      memoryUsedBytes: process?.residentBytes ?? 0,
      memoryLimitBytes: this.#spec.memoryLimitBytes,
      ...this.#disk,
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
  writtenStatement = (write: Operations['writtenStatement'][0]) => this.#parse('writtenStatement', write);
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
    this.#call('readView', { ...wire(statement), database: statement.database }, analysisTimeoutMs);
  analyze = async (statement: Statement, turn: Turn) => {
    const wired = wire(statement);
    const objects = await this.#call('namedObjects', wired, shortTimeoutMs);
    const options = { turn, timeoutMs: analysisTimeoutMs };
    try {
      return await this.#apart(this.#analysis.call('bind', { statement: wired, objects }, options));
    } catch (error) {
      // A name may be missing only because what has it was being changed each time that the names were resolved.
      if (objects.token !== changingToken || !(error instanceof Failure) || error.code !== 'SQL_INVALID') throw error;
      throw new Failure('WAREHOUSE_BUSY', 'the tables of the statement keep being changed', {}, { cause: error });
    }
  };
  describe = (statement: Statement) => this.#call('describe', wire(statement), analysisTimeoutMs);
  explain = (statement: Statement) => this.#call('explain', wire(statement), analysisTimeoutMs);

  async apply(
    change: Operations['apply'][0]['change'],
    { step, signal, progress }: WorkOptions & { readonly step: string },
  ): Promise<Operations['apply'][1]> {
    const applied = await this.#call('apply', { change, step }, changeTimeoutMs, signal, progress);
    if ('table' in change && change.kind !== 'dropTable' && change.kind !== 'hideTable')
      this.#note(nameOf(change.table, 'newName' in change ? change.newName : undefined));
    return applied;
  }

  async execute(statement: Statement, { signal, progress, timeoutMs, analysis, ...options }: ExecuteOptions) {
    const { reads, writes, views, token } = analysis;
    const argument = {
      statement: wire(statement),
      options: { ...options, token, tables: [...reads, ...writes, ...views] },
      writes,
      inserts: analysis.kind === 'insert',
    };
    try {
      return await this.#call('execute', argument, timeoutMs, signal, progress);
    } catch (error) {
      const { resultPath } = options;
      for (const path of [rowsFile(resultPath), filesDirectory(resultPath)])
        await rm(path, { recursive: true, force: true });
      throw error;
    } finally {
      // A write that failed may have been done all the same, where the process ended before it could say so.
      for (const table of writes) this.#note(table);
    }
  }

  remember = (resultPath: string, step: string) => this.#call('remember', { resultPath, step }, shortTimeoutMs);

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
    this.#note(nameOf(table));
    return count;
  }

  inferTable = (work: Operations['inferTable'][0], turn: Turn) => {
    const timeoutMs = work.isWhole ? changeTimeoutMs : shortTimeoutMs;
    return this.#apart(this.#analysis.call('inferTable', work, { turn, timeoutMs }));
  };

  loadedBefore = (catalog: Operations['loadedBefore'][0]['catalog'], step: string) =>
    this.#call('loadedBefore', { catalog, step }, shortTimeoutMs);

  async load(work: Operations['load'][0], { progress, ...turn }: WorkOptions & Turn) {
    const shape = work.file.shape ?? (await this.#shapeOf(work, turn));
    try {
      const shaped = { ...work, file: { ...work.file, shape } };
      return await this.#call('load', shaped, changeTimeoutMs, turn.signal, progress);
    } finally {
      // It may have been done all the same, where the process ended before it could say so.
      this.#note(nameOf(work.table));
    }
  }

  async #shapeOf(work: Operations['load'][0], turn: Turn) {
    const options = { turn, timeoutMs: changeTimeoutMs };
    try {
      return await this.#apart(this.#analysis.call('shapeOfLoad', work, options));
    } catch (error) {
      // The file may be gone because the load was done before.
      if (work.dryRun || (await this.loadedBefore(work.table.catalog, work.step)) === undefined) throw error;
      return undefined;
    }
  }

  async restorePart(part: Operations['restorePart'][0], { signal }: { readonly signal: AbortSignal }) {
    await this.#call('restorePart', part, changeTimeoutMs, signal);
  }

  /** While it is open the process is not started anew for the sake of its limits. */
  async snapshot(catalog: CatalogRef, { signal }: { readonly signal: AbortSignal }): Promise<Snapshot> {
    const id = await this.#call('beginSnapshot', catalog, shortTimeoutMs, signal);
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
        // With a process that ended, it ended too.
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
    // The file at that path may be another one by now: what the engine has open it would write over that.
    if (await this.#call('isAttached', catalog, shortTimeoutMs, signal))
      return [
        { kind: 'damaged', reason: 'the engine still has its former file open: suspend and resume the warehouse' },
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
    for (const table of written) this.#note(table);
  }

  takeChangedTables(): readonly TableName[] {
    const taken = [...this.#changed.values()];
    this.#changed.clear();
    return taken;
  }

  #note(table: TableName): void {
    this.#changed.set(JSON.stringify([table.catalog, table.database, table.table]), table);
  }

  #parse<K extends OperationName>(operation: K, argument: Operations[K][0]): Promise<Operations[K][1]> {
    const turn = { principal: ofDefinitions, signal: new AbortController().signal };
    return this.#apart(this.#analysis.call(operation, argument, { turn, timeoutMs: analysisTimeoutMs }));
  }

  /** Nothing is changed in a process that has no files. */
  async #apart<T>(work: Promise<T>): Promise<T> {
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
      if (!this.#wanted)
        throw new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran');
      const cause = new EngineLost({ isToBlame: false });
      throw new Failure('WAREHOUSE_STARTING', 'the engine of the warehouse is starting', {}, { cause });
    }
    try {
      const answer = await process.call(operation, argument, { timeoutMs, signal, progress });
      if (this.#wanted) this.#spare?.want();
      return answer;
    } catch (error) {
      throw isWriting(operation, argument) ? error : withOutcome(error, 'notApplied');
    } finally {
      if (this.#restartWhenIdle) void this.#restartIfIdle();
    }
  }

  /** Again where the limits changed meanwhile. */
  async #start(): Promise<void> {
    for (;;) {
      this.#restartWhenIdle = false;
      await this.#startProcess();
      if (!this.#restartWhenIdle || !this.#wanted) return;
      await this.#stopProcess();
    }
  }

  async #startProcess(): Promise<void> {
    const started = performance.now();
    const { name, observe } = this.#options;
    // A spare that is ready takes over at once: how often that happens is bounded by how long the next one takes.
    const pause = this.#spare?.isReady === true ? 0 : this.#restartDelay.ms;
    if (pause > 0) await this.#pause(pause);
    await this.#gone;
    // A file over which the engine stops is left out, and the others are attached.
    const fatal = new Set<string>();
    for (let kills = 0; ; ) {
      const listed = await (this.#options.toAttach ?? this.#options.catalogs)();
      const sound = listed.filter(({ id }) => !fatal.has(id));
      const ended = await this.#open(sound, kills < outsideKillsMax);
      if (ended === undefined) break;
      if (ended.culprit === undefined) kills++;
      else fatal.add(ended.culprit);
      await this.#gone;
    }
    this.#error = null;
    this.#lastStartAt = new Date().toISOString();
    const pid = this.#process?.pid ?? 0;
    const confinement = activeOf(this.#measures);
    observe({ kind: 'engineStarted', warehouse: name, ms: performance.now() - started, confinement, pid });
  }

  /**
   * @returns where the process ended, and another one is to be tried: `culprit`, the id of the catalog over whose file; without it,
   * others killed it, which `forgives` says to accept. Throws where it does not start at all.
   */
  async #open(catalogs: readonly AttachRequest[], forgives: boolean): Promise<{ culprit?: string } | undefined> {
    const { attached } = this.#options;
    const process = this.#spare?.take() ?? (await this.#launched());
    if (!this.#wanted) {
      await process.discard();
      throw withOutcome(suspendedMeanwhile(), 'notApplied');
    }
    this.#process = process;
    this.#gone = process.exited;
    try {
      const { version, written } = await process.attach(catalogs);
      this.#version = version;
      for (const table of written) this.#note(table);
      return undefined;
    } catch (error) {
      if (!this.#wanted) throw withOutcome(suspendedMeanwhile(), 'notApplied');
      if (process.wasKilledFromOutside && forgives) return {};
      const catalog = process.attaching;
      const failure = this.#startless(`it does not open: ${(error as Error).message}`, error);
      process.kill('it does not open', failure);
      if (catalog === undefined) throw failure;
      attached?.({ kind: 'fatal', catalog, reason: 'the engine stopped while it opened its file' });
      return { culprit: catalog.id };
    }
  }

  /** A process that prepares itself with the settings of now. */
  async #launched(): Promise<EngineProcess> {
    const { name, observe, attached } = this.#options;
    const launch = await this.#launch();
    const process: EngineProcess = new EngineProcess(launch, this.#settings(this.#spec), {
      died: (reason) => this.#died(process, reason),
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

  /** Of a process that sees no file of a catalog. */
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
        this.#confinement.tellOnce(() => observe({ kind: 'engineUnconfined', warehouse: name, reason }));
      return launch;
    } catch (error) {
      throw this.#startless((error as Error).message, error);
    }
  }

  #startless(reason: string, cause: unknown): Failure {
    this.#error = 'the engine does not start';
    this.#options.observe({ kind: 'engineDied', warehouse: this.#options.name, reason });
    const message = 'the engine of the warehouse does not start';
    return new Failure('WAREHOUSE_FAILED', message, {}, { cause, outcome: 'notApplied' });
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#hurry = resolve;
    const timer = setTimeout(resolve, ms);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#hurry = undefined;
    }
  }

  #died(process: EngineProcess, reason: string): void {
    this.#spare?.died(process, reason);
    if (this.#process !== process) return;
    // A statement that costs the process is not sent again by itself: others need not wait longer for the next start.
    if (!this.#isKilledByStatement) this.#restartDelay.died();
    this.#isKilledByStatement = false;
    this.#error = 'the engine stopped and is being started again';
    this.#options.observe({ kind: 'engineDied', warehouse: this.#options.name, reason });
    if (this.#wanted && !this.#starting) this.start().catch(() => undefined);
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
    await process.stop(suspendedMeanwhile());
    this.#options.observe({ kind: 'engineStopped', warehouse: this.#options.name });
  }

  async #lookAtDisk(): Promise<void> {
    if (performance.now() - this.#diskLookedAt < diskLookMs) return;
    this.#diskLookedAt = performance.now();
    try {
      const directory = catalogsDirectory(this.#options.dataDirectory);
      let dataUsedBytes = 0;
      const mine = new Set((await this.#options.catalogs()).map((catalog) => catalog.id));
      for (const file of await readdir(directory)) {
        if (mine.has(file.split('.', 1)[0] as string)) dataUsedBytes += (await stat(join(directory, file))).size;
      }
      const { bavail, blocks, bsize } = await statfs(directory);
      this.#disk = { dataUsedBytes, diskAvailableBytes: bavail * bsize, diskTotalBytes: blocks * bsize };
    } catch {
      // No directory yet, or a file that went meanwhile: the next look tells.
    }
  }
}

type Cancellable = Pick<WorkOptions, 'signal'>;

/** A statement that runs is interrupted, which may be too late. */
const suspendedMeanwhile = () =>
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

function wire({ parameters, ...statement }: Statement): WireStatement {
  return { ...statement, parameters: parameters === undefined ? undefined : JSON.stringify(parameters) };
}

function nameOf({ catalog, database, table }: TableRef, newName = table): TableName {
  return { catalog: catalog.name, database, table: newName };
}
