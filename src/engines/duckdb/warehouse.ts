// One warehouse on DuckDB: implements the operations of the port as calls to its processes. See process/process_supervisor.ts for how the
// process with the files starts and ends.
import { rm } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import type { ExpectedTable } from '../../model/expected_table.ts';
import type { TableDefinition, WarehouseSpec } from '../../model/records.ts';
import { Failure, withOutcome } from '../../standard/failure.ts';
import type { AdmissionRequest } from '../admission.ts';
import { directMethods } from '../derived_engine.ts';
import type { BackendStatus } from '../port/backends.ts';
import type { AttachRequest, CatalogFault } from '../port/catalog_storage.ts';
import type { EngineWarehouse, EngineWarehouseOptions } from '../port/engine.ts';
import { filesDirectory } from '../port/export.ts';
import type { FileLoad, FileLoadResult } from '../port/load.ts';
import type { CatalogRef, TableName, TableRef } from '../port/refs.ts';
import type { Snapshot } from '../port/snapshot.ts';
import type { ExecuteOptions, Statement } from '../port/statements.ts';
import type { ReportProgress, WorkOptions } from '../port/work.ts';
import { rowsFile } from '../results/paged_file.ts';
import { AnalysisProcesses } from './analysis/analysis_processes.ts';
import { changingToken } from './analysis/named_objects.ts';
import type { LoadPlan } from './load/load_plan.ts';
import { type DirectName, directNames, directOperations } from './process/direct_operations.ts';
import { EngineProcess } from './process/engine_process.ts';
import { ProcessLauncher } from './process/process_launcher.ts';
import { ProcessSupervisor, suspendedFailure } from './process/process_supervisor.ts';
import type { OperationName, Operations, WireStatement } from './process/protocol.ts';
import { changeTimeoutMs, shortTimeoutMs } from './process/time_limits.ts';
import type { Confinement } from './sandbox/sandbox.ts';
import { parseCreateView } from './sql/parse_create_view.ts';
import { scanTableNames } from './sql/table_name_scan.ts';
import { DiskUsage } from './storage/disk_usage.ts';
import { embeddedTopology } from './storage/topology.ts';

/** All parsing of definitions counts as one principal for fair scheduling. */
const definitionsPrincipal = { id: 'definitions' };

export interface DuckdbOptions {
  /** Isolation of the engine process from the rest of the machine. */
  readonly confinement: Confinement;
  /** Whether a spare process is prepared that takes over when the current one ends. */
  readonly spareEngine?: boolean;
  /** The time limit for binding and parsing. They cannot be interrupted: when it expires, the process is killed. */
  readonly analysisTimeoutMs: number;
}

export class DuckdbWarehouse implements Omit<EngineWarehouse, DirectName> {
  readonly #analysisTimeoutMs: number;
  readonly #launcher: ProcessLauncher;
  readonly #supervisor: ProcessSupervisor;
  readonly #analysis: AnalysisProcesses;
  readonly #disk: DiskUsage;
  /** Removal of the files of failed statements, while it runs: a repeated statement writes files of the same names. */
  #removing: Promise<unknown> | undefined;
  /** Tables written since the last `takeChangedTables`. */
  readonly #changed = new Map<string, TableName>();

  constructor(options: EngineWarehouseOptions, { confinement, spareEngine = false, analysisTimeoutMs }: DuckdbOptions) {
    this.#analysisTimeoutMs = analysisTimeoutMs;
    const launcher = new ProcessLauncher(options, confinement);
    this.#launcher = launcher;
    const written = (tables: readonly TableName[]) => {
      for (const table of tables) this.#markChanged(table);
    };
    this.#supervisor = new ProcessSupervisor({ warehouse: options, launcher, spareEngine, written });
    this.#analysis = new AnalysisProcesses({
      launch: () => launcher.launchWithoutFiles(),
      settings: () => launcher.helperSettings(),
      died: (pid, reason) => options.observe({ kind: 'analysisDied', warehouse: options.name, pid, reason }),
    });
    this.#disk = new DiskUsage(options.dataDirectory, options.catalogs);
  }

  get running(): boolean {
    return this.#supervisor.running;
  }

  start(): Promise<void> {
    this.#analysis.start();
    return this.#supervisor.start();
  }

  async stop(): Promise<void> {
    await Promise.all([this.#supervisor.stop(), this.#analysis.stop(suspendedFailure())]);
    await this.#removing;
  }

  async configure(spec: WarehouseSpec): Promise<void> {
    const previous = this.#launcher.spec;
    this.#launcher.spec = spec;
    const isUnchanged =
      previous.threads === spec.threads &&
      previous.memoryLimitBytes === spec.memoryLimitBytes &&
      previous.spillLimitBytes === spec.spillLimitBytes;
    if (isUnchanged) return;
    this.#analysis.renew();
    await this.#supervisor.applyLimits();
  }

  status(): BackendStatus {
    return { ...this.#supervisor.status(), cpuCores: availableParallelism(), ...this.#disk.last };
  }

  /** The methods that are not defined here. */
  readonly direct = directMethods(directNames, (name, argument, { signal }) =>
    this.#call(name, argument, directOperations[name].timeoutMs, signal),
  );
  topology = () => embeddedTopology;
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
  compareTables = (catalog: CatalogRef, expected: readonly ExpectedTable[], { signal }: Cancellable) =>
    this.#call('compareTables', { catalog, expected }, shortTimeoutMs, signal);
  tableNamesIn = async (sql: string) => scanTableNames(sql);
  parseCreateView = async (sql: string) => parseCreateView(sql);
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
        'the tables of the statement are being changed; retry later',
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

  async execute(statement: Statement, { signal, progress, onPage, timeoutMs, analysis, ...options }: ExecuteOptions) {
    const { reads, writes, views, token } = analysis;
    const argument = {
      statement: toWireStatement(statement),
      options: { ...options, token, tables: [...reads, ...writes, ...views], reportsPages: onPage !== undefined },
      writes,
      inserts: analysis.kind === 'insert',
    };
    if (this.#removing) await this.#removing;
    try {
      return await this.#call('execute', argument, timeoutMs, signal, progress, onPage);
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
    const timeoutMs = work.readsAllRows ? changeTimeoutMs : shortTimeoutMs;
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
    const { isCurrent, release } = this.#supervisor.hold();
    let isOpen = true;
    return {
      parts: (table, abort) => this.#call('snapshotParts', { id, table }, changeTimeoutMs, abort),
      write: (table, part, path, abort) =>
        this.#call('writeSnapshotPart', { id, table, part, path }, changeTimeoutMs, abort),
      close: async () => {
        if (!isOpen) return;
        isOpen = false;
        release();
        // Otherwise the snapshot has ended together with its process.
        if (isCurrent()) await this.#call('endSnapshot', id, shortTimeoutMs).catch(() => undefined);
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
    const events = { died: () => undefined, killed: () => undefined, attached: () => undefined };
    const launch = await this.#launcher.launchWithFiles();
    const process = new EngineProcess(launch, this.#launcher.helperSettings(), events, { runsOneCall: true });
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

  attach = (catalog: AttachRequest) => this.#supervisor.attach(catalog);

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

  #call<K extends OperationName>(
    operation: K,
    argument: Operations[K][0],
    timeoutMs: number,
    signal?: AbortSignal,
    progress?: ReportProgress,
    onPage?: ExecuteOptions['onPage'],
  ): Promise<Operations[K][1]> {
    return this.#supervisor.call(operation, argument, { timeoutMs, signal, progress, onPage });
  }
}

type Cancellable = Pick<WorkOptions, 'signal'>;

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
