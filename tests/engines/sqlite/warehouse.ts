// A warehouse on the test engine: the adapter, which runs in the server. Files of the server cross the connection as streams.
import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { deserialize } from 'node:v8';
import { directMethods } from '../../../src/engines/derived_engine.ts';
import type { BackendStatus, Topology } from '../../../src/engines/port/backends.ts';
import type { AttachRequest, CatalogFault } from '../../../src/engines/port/catalog_storage.ts';
import type { Change } from '../../../src/engines/port/changes.ts';
import type { EngineWarehouse, EngineWarehouseOptions } from '../../../src/engines/port/engine.ts';
import type { FileLoad, FileLoadResult } from '../../../src/engines/port/load.ts';
import type { CatalogRef, TableName, TableRef } from '../../../src/engines/port/refs.ts';
import type { RowsBatch } from '../../../src/engines/port/rows.ts';
import type { ExecuteOptions, Statement, StatementResult } from '../../../src/engines/port/statements.ts';
import type { StepOptions, WorkOptions } from '../../../src/engines/port/work.ts';
import type { ExpectedTable } from '../../../src/model/expected_table.ts';
import type { WarehouseSpec } from '../../../src/model/records.ts';
import type { LogicalType } from '../../../src/model/types.ts';
import { Failure } from '../../../src/standard/failure.ts';
import { EngineConnection } from './connection.ts';
import { RejectedRowsFile, ResultRows } from './result_rows.ts';
import type { StatementCall } from './server/bound_statement.ts';
import { type DirectName, directOperations } from './server/operations.ts';

const directNames = Object.keys(directOperations) as DirectName[];
export const backend = { name: 'sqlite', location: 'loopback' };

const rewriteRowsMin = 100_000;

/** The server refuses requests that need a missing capability before they are here (engines/required_capability.ts). */
const unsupported = async (feature: string): Promise<never> => {
  throw new Failure('NOT_SUPPORTED_BY_ENGINE', `the engine does not support ${feature}`);
};

export class SqliteWarehouse implements Omit<EngineWarehouse, DirectName> {
  readonly #options: EngineWarehouseOptions;
  readonly #connection: EngineConnection;
  #spec: WarehouseSpec;
  #isRunning = false;
  #stopped = new AbortController();
  #runningStatements = 0;
  #last: { readonly version: string; readonly dataBytes: number } | undefined;
  #lastStartAt: string | null = null;
  #lastHeartbeatAt: string | null = null;
  /** Ids of the calls of running writes, by result path. */
  readonly #writes = new Map<string, string>();
  readonly #changed = new Map<string, TableName>();

  constructor(options: EngineWarehouseOptions, port: () => Promise<number>) {
    this.#options = options;
    this.#spec = options.spec;
    this.#connection = new EngineConnection(port);
  }

  get running(): boolean {
    return this.#isRunning;
  }

  async start(): Promise<void> {
    if (this.#isRunning) return;
    this.#last = await this.#connection.call('status', null);
    this.#isRunning = true;
    this.#stopped = new AbortController();
    this.#lastStartAt = this.#lastHeartbeatAt = new Date().toISOString();
    const catalogs = (await this.#options.toAttach?.()) ?? (await this.#options.catalogs());
    for (const { id, name } of catalogs) await this.attach({ id, name });
  }

  /** The process of the engine serves others, and continues. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    this.#stopped.abort();
    this.#connection.close();
  }

  async configure(spec: WarehouseSpec): Promise<void> {
    this.#spec = spec;
  }

  status(): BackendStatus {
    return {
      alive: this.#isRunning,
      version: this.#last?.version ?? null,
      cpuCores: 1,
      memoryUsedBytes: 0,
      memoryLimitBytes: this.#spec.memoryLimitBytes,
      dataUsedBytes: this.#last?.dataBytes ?? 0,
      diskAvailableBytes: 0,
      diskTotalBytes: 0,
      spilledBytes: 0,
      runningQueries: this.#runningStatements,
      lastStartAt: this.#lastStartAt,
      lastHeartbeatAt: this.#lastHeartbeatAt,
      confinement: [],
      errorMessage: null,
    };
  }

  /** The methods that are not defined here. */
  readonly direct = directMethods(directNames, (name, argument, { signal }) => this.#call(name, argument, { signal }));

  topology = (): Topology => ({
    tablets: async () => [{ id: '0', replicas: [{ backend: backend.name, isAvailable: this.#isRunning }] }],
    tabletCount: (_backend, tableCount) => tableCount(),
  });

  async cost(change: Change) {
    if (change.kind !== 'alterTable') return 'instant';
    const { rowCount } = await this.#call('tableStatistics', change.table);
    return rowCount < rewriteRowsMin ? 'instant' : 'rewrite';
  }

  async apply(change: Change, { step, undoes, signal }: WorkOptions & StepOptions) {
    await this.#call('apply', { change, step, undoes }, { signal });
    if ('table' in change && change.kind !== 'dropTable' && change.kind !== 'hideTable')
      this.#markChanged({ ...change.table, table: 'newName' in change ? change.newName : change.table.table });
    return undefined;
  }

  forget = async (catalog: CatalogRef, steps: readonly string[]) => {
    await this.#call('forget', { catalog, steps });
  };
  analyze = (statement: Statement, { signal }: { readonly signal?: AbortSignal | undefined }) =>
    this.#call('analyze', toCall(statement), { signal });
  describe = (statement: Statement) => this.#call('describe', toCall(statement));
  explain = (statement: Statement) => this.#call('explain', toCall(statement));
  checkDefault = async (expression: string, type: LogicalType) => {
    await this.#call('checkDefault', { expression, type });
  };

  async execute(statement: Statement, options: ExecuteOptions): Promise<StatementResult> {
    const { analysis, numbers, rowsMax, step, signal, timeoutMs, resultPath, into, profile, planAfterMs } = options;
    if (profile) return unsupported('profiles of queries');
    if (into) return unsupported('exports of rows to files');
    const rows = new ResultRows(options);
    const work = { statement: toCall(statement), token: analysis.token, numbers, rowsMax, step };
    const isWrite = analysis.kind !== 'select';
    const id = randomUUID();
    if (isWrite) this.#writes.set(resultPath, id);
    this.#runningStatements++;
    const begun = performance.now();
    try {
      const onLine = (line: string) => rows.add(line);
      const end = await this.#call(isWrite ? 'write' : 'select', work, { signal, timeoutMs, id, onLine });
      const isSlow = planAfterMs !== undefined && performance.now() - begun >= planAfterMs;
      const plan = isSlow ? { plan: await this.explain(statement) } : {};
      return { ...end, ...plan, columns: rows.columns, rows: await rows.finish() };
    } catch (error) {
      await rows.discard();
      throw error;
    } finally {
      this.#runningStatements--;
      this.#writes.delete(resultPath);
      // A write that failed may still have been committed, if the connection was lost.
      for (const table of analysis.writes) this.#markChangedName(table);
    }
  }

  async recordStep(resultPath: string, step: string): Promise<boolean> {
    const id = this.#writes.get(resultPath);
    return id !== undefined && (await this.#connection.assignStep(id, step));
  }

  async insertRows(
    table: TableRef,
    stored: Parameters<EngineWarehouse['insertRows']>[1],
    { definition, steps = [], signal }: Parameters<EngineWarehouse['insertRows']>[2],
  ): Promise<number> {
    const batch = 'file' in stored ? (deserialize(await readFile(stored.file)) as RowsBatch) : stored;
    const count = await this.#call('insertRows', { table, batch, definition, steps }, { signal });
    this.#markChanged(table);
    return count;
  }

  async load({ file, rejectsPath, ...work }: FileLoad, { signal }: WorkOptions): Promise<FileLoadResult> {
    const rejected = new RejectedRowsFile(rejectsPath);
    const call = { ...work, file: { format: file.format, csv: { ...file.schema?.csv, ...file.csv } } };
    const onLine = (line: string) => rejected.add(line);
    try {
      return await this.#call('load', call, { signal, input: createReadStream(file.path), onLine });
    } finally {
      await rejected.finish();
      this.#markChanged(work.table);
    }
  }

  rowsLoadedByStep = async (catalog: CatalogRef, step: string) =>
    (await this.#call('rowsOfStep', { catalog, step })) ?? undefined;
  optimize = async (table: TableRef, { signal }: WorkOptions) => {
    await this.#call('optimize', table, { signal });
  };
  compareTables = (catalog: CatalogRef, expected: readonly ExpectedTable[], { signal }: Cancellable) =>
    this.#call('compareTables', { catalog, expected }, { signal });

  async checkFile(catalog: AttachRequest, expected: readonly ExpectedTable[], { signal }: Cancellable) {
    const { faults } = await this.compareTables(catalog, expected, { signal });
    return faults satisfies readonly CatalogFault[];
  }

  async attach({ id, name }: AttachRequest): Promise<void> {
    this.#options.attached?.({ kind: 'attached', catalog: { id, name }, identity: id });
  }

  readView = () => unsupported('views');
  parseCreateView = () => unsupported('views');
  inferTable = () => unsupported('inferring the columns of a file');
  snapshot = () => unsupported('snapshots');
  restorePart = () => unsupported('snapshots');
  rowNumbering = () => unsupported('positions of rows');

  takeChangedTables(): readonly TableName[] {
    const tables = [...this.#changed.values()];
    this.#changed.clear();
    return tables;
  }

  #markChanged({ catalog, database, table }: TableRef): void {
    this.#markChangedName({ catalog: catalog.name, database, table });
  }

  #markChangedName(table: TableName): void {
    this.#changed.set(JSON.stringify([table.catalog, table.database, table.table]), table);
  }

  #call: EngineConnection['call'] = async (operation, argument, options = {}) => {
    if (!this.#isRunning) throw suspended('notApplied');
    const stopped = this.#stopped.signal;
    const signal = options.signal ? AbortSignal.any([options.signal, stopped]) : stopped;
    try {
      const value = await this.#connection.call(operation, argument, { ...options, signal });
      this.#lastHeartbeatAt = new Date().toISOString();
      return value;
    } catch (error) {
      throw stopped.aborted ? suspended('unknown') : error;
    }
  };
}

type Cancellable = Pick<WorkOptions, 'signal'>;

const suspended = (outcome: 'notApplied' | 'unknown') =>
  new Failure('WAREHOUSE_SUSPENDED', 'the warehouse was suspended while the statement ran', {}, { outcome });

const toCall = ({ sql, parameters, catalog, database }: Statement): StatementCall => ({
  sql,
  catalog,
  database,
  parameters: parameters === undefined ? undefined : JSON.stringify(parameters),
});
