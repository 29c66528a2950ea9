// The engine process: owns the DuckDB instance and one file per catalog, executes the operations that the server sends, and exits
// with the server. Started by engine_process.ts; the server imports nothing from here.
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { deserialize } from 'node:v8';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { Digests } from '../../../files/digests.ts';
import type { WarehouseSpec } from '../../../model/records.ts';
import { Failure } from '../../../standard/failure.ts';
import {
  type CatalogRef,
  type Change,
  type RowsBatch,
  StaleAnalysis,
  type StatementAnalysis,
  type StatementResult,
  type TableRef,
} from '../../engine.ts';
import type { Applied } from '../../views.ts';
import { bindStatement } from '../analysis/bound_statement.ts';
import { DataVersions, trackInsert, type WriteVersions } from '../analysis/data_versions.ts';
import { DefinitionVersions } from '../analysis/definition_versions.ts';
import { NamedObjectReader } from '../analysis/named_objects.ts';
import { ObjectCopies } from '../analysis/object_copies.ts';
import { readView } from '../analysis/view_reading.ts';
import { ViewUsage } from '../analysis/view_usage.ts';
import { applyChange, costOf } from '../ddl/apply_change.ts';
import { optimizeTable } from '../ddl/optimize.ts';
import { tableStatistics } from '../ddl/table_statistics.ts';
import { exportQuery } from '../export/export_query.ts';
import { commit, forgetSteps, rememberStep, retryingConflicts } from '../instance/applied_steps.ts';
import { type Namespace, preparedKey, type Session, Sessions } from '../instance/connection_pool.ts';
import { lockData, openData, openScratch } from '../instance/instances.ts';
import { LateSteps, type RunningWrite } from '../instance/late_steps.ts';
import { CallProgress, type Stage } from '../instance/progress.ts';
import { failureOf } from '../instance/sql_errors.ts';
import { type FileAccess, openWorkDirectory, removeLeftovers, spilledBytes } from '../instance/work_directory.ts';
import { Loads } from '../load/load_operations.ts';
import { buildStatement } from '../query/dml_builder.ts';
import { explainStatement, linesAboveExplained, profileStatement, withPlan } from '../query/explain.ts';
import { insertRows } from '../query/insert_rows.ts';
import { describedColumns, type KnownSelect, linesAbove, runSelect, runWrite } from '../query/results.ts';
import { RowNumberings } from '../query/row_positions.ts';
import { Snapshots } from '../snapshot/snapshots.ts';
import { checkDefault } from '../sql/default_expression.ts';
import { unreviewedFunctions } from '../sql/function_allowlist.ts';
import { parseCreateTable } from '../sql/parse_create_table.ts';
import { type AttachMessage, attachEach } from '../storage/attachments.ts';
import { catalogFile, checkpointAttached, hasLog, isAttached, tablesOf } from '../storage/catalog_files.ts';
import { faultsWithin } from '../storage/check_file.ts';
import { compareTables, readWholeTable } from '../storage/check_tables.ts';
import {
  type FromEngine,
  heartbeatMs,
  type OperationName,
  type Operations,
  rowsFile,
  type ToEngine,
  type WireOptions,
  type WireStatement,
} from './protocol.ts';
import { faultOf, locateErrors } from './wire_errors.ts';

const knownSelectsMax = 5000;
/** An interrupt affects only what runs at that instant; it is repeated for work that is between two steps. */
const interruptIntervalMs = 50;

/** Changes after which a catalog no longer exists under its name, so that no session may have it as its default. */
const nameChangingKinds: ReadonlySet<Change['kind']> = new Set(['renameCatalog', 'hideCatalog', 'dropCatalog']);

type Interruptible = (connection: DuckDBConnection | undefined) => void;

interface WorkerParts {
  readonly spec: WarehouseSpec;
  readonly fileAccess: FileAccess;
  readonly unreviewed: ReadonlySet<string>;
  readonly report: (message: AttachMessage) => void;
}

class Worker {
  readonly #instance: DuckDBInstance;
  readonly #spec: WarehouseSpec;
  /**
   * A scratch database for parsing texts that name no table. Opened on first use: a process that has the catalogs' files never
   * needs it.
   */
  #scratch: Promise<DuckDBConnection> | undefined;
  readonly #sessions: Sessions;
  readonly #fileAccess: FileAccess;
  readonly #unreviewed: ReadonlySet<string>;
  readonly #definitions = new DefinitionVersions();
  readonly #views = new ViewUsage();
  readonly #objects = new NamedObjectReader(this.#definitions, this.#views);
  readonly #copies = new ObjectCopies();
  readonly #data = new DataVersions();
  /** Versions of the data that change only with deletions and updates. */
  readonly #removals = new DataVersions();
  readonly #epochs: WriteVersions = { data: this.#data, removals: this.#removals };
  readonly #numberings: RowNumberings;
  readonly #knownSelects = new Map<string, KnownSelect>();
  readonly #digests = new Digests();
  readonly #lateSteps = new LateSteps();
  readonly #snapshots: Snapshots;
  readonly #loading: Loads;
  readonly #report: (message: AttachMessage) => void;

  constructor(instance: DuckDBInstance, { spec, fileAccess, unreviewed, report }: WorkerParts) {
    this.#report = report;
    this.#instance = instance;
    this.#spec = spec;
    this.#sessions = new Sessions(instance);
    this.#fileAccess = fileAccess;
    this.#unreviewed = unreviewed;
    this.#numberings = new RowNumberings(fileAccess.dataDirectory, this.#removals);
    const epochs = this.#epochs;
    this.#loading = new Loads({ sessions: this.#sessions, versions: epochs, own: fileAccess.own, unreviewed });
    this.#snapshots = new Snapshots(instance, fileAccess.own, { sessions: this.#sessions, versions: epochs });
  }

  static async prepare(
    { spec, dataDirectory, spoolDirectory, readableDirectories }: Operations['prepare'][0],
    report: (message: AttachMessage) => void,
  ): Promise<Operations['prepare'][1] & { worker: Worker }> {
    const instance = await openData(spec);
    const connection = await instance.connect();
    const fileAccess = await openWorkDirectory(dataDirectory, spoolDirectory, readableDirectories);
    await lockData(connection, spec, fileAccess);
    const [row] = (await connection.runAndReadAll('SELECT library_version FROM pragma_version()')).getRows();
    const version = String(row?.[0]);
    const unreviewed = await unreviewedFunctions(connection, version);
    connection.closeSync();
    const worker = new Worker(instance, { spec, fileAccess, unreviewed, report });
    await worker.#sessions.warm();
    return { worker, version };
  }

  /** Attaches catalogs: at the start, and single ones later. */
  async attach({ catalogs }: Operations['attach'][0]): Promise<Operations['attach'][1]> {
    const { dataDirectory } = this.#fileAccess;
    await removeLeftovers(this.#fileAccess);
    const connection = await this.#instance.connect();
    try {
      const logged = new Set(catalogs.filter((catalog) => hasLog(dataDirectory, catalog)).map(({ id }) => id));
      const attached = await attachEach(connection, dataDirectory, catalogs, this.#report);
      for (const catalog of attached) this.#invalidate({ kind: 'restoreCatalog', catalog });
      const recovered = attached.filter(({ id }) => logged.has(id));
      return { written: await tablesOf(connection, recovered) };
    } finally {
      connection.closeSync();
    }
  }

  spilledBytes = (): Promise<number> => spilledBytes(this.#fileAccess);

  get runningStatements(): number {
    return this.#sessions.busy;
  }

  async close(): Promise<void> {
    (await this.#scratch)?.closeSync();
    await checkpointAttached(await this.#instance.connect());
    this.#instance.closeSync();
  }

  /** Runs one operation. `started` is called with the connection that an interrupt should reach, and with undefined when there is none. */
  async run(
    operation: OperationName,
    argument: unknown,
    started: Interruptible,
    signal: AbortSignal,
    stage?: Stage,
  ): Promise<unknown> {
    const operations: {
      [K in Exclude<OperationName, 'prepare' | 'attach' | 'close'>]: (
        argument: Operations[K][0],
      ) => Promise<Operations[K][1]>;
    } = {
      namedObjects: (statement) =>
        this.#inNamespace(statement, undefined, started, ({ connection }) =>
          locateErrors('', 0, () => this.#objects.read(connection, statement)),
        ),
      bind: (request) => this.#bind(request, started),
      execute: (request) => this.#execute(request, started, signal),
      recordStep: async ({ resultPath, step }) => this.#lateSteps.recordStep(resultPath, step),
      explain: (statement) =>
        this.#inNamespace(statement, undefined, started, (session) =>
          locateErrors(statement.sql, linesAboveExplained, () => explainStatement(session, statement)),
        ),
      readView: (statement) =>
        this.#inNamespace(statement, undefined, started, (session) =>
          locateErrors(statement.sql, 0, () => readView(session, statement, this.#unreviewed)),
        ),
      describe: (statement) =>
        this.#inNamespace(statement, undefined, started, (session) =>
          locateErrors(statement.sql, 0, () => describedColumns(session, statement)),
        ),
      cost: (change) => this.#sessions.with(undefined, started, (session) => costOf(session.connection, change)),
      apply: (request) => this.#apply(request, started, signal, stage),
      forget: ({ catalog, steps }) =>
        this.#sessions.with(undefined, started, ({ connection }) => forgetSteps(connection, catalog, steps)),
      insertRows: (request) => this.#insertRows(request, started, signal),
      ...this.#checkOperations(started, signal),
      ...this.#loading.operations(started, { signal, stage }),
      ...this.#snapshots.operations(started, signal),
      parseCreateTable: (sql) => this.#inScratch(sql, (scratch) => parseCreateTable(scratch, sql)),
      buildStatement: (write) => this.#inScratch('', (scratch) => buildStatement(scratch, write)),
      checkDefault: ({ expression, type }) =>
        this.#inScratch(expression, (scratch) => checkDefault(scratch, expression, type)) as Promise<undefined>,
      optimize: (table) =>
        this.#sessions.with(undefined, started, (session) =>
          locateErrors('', 0, () =>
            optimizeTable(session.connection, table, { signal, isCopied: () => this.#snapshots.keepFiles }),
          ),
        ) as Promise<undefined>,
      rowNumbering: ({ table, definition }) =>
        this.#sessions.with(undefined, started, ({ connection }) => this.#numberings.of(connection, table, definition)),
      tableStatistics: (table) =>
        this.#sessions.with(undefined, started, (session) => tableStatistics(session.connection, table)),
    };
    return (operations[operation as 'bind'] as (argument: unknown) => Promise<unknown>)(argument);
  }

  /** The operations that check catalogs and their files. */
  #checkOperations(started: Interruptible, signal: AbortSignal) {
    const { dataDirectory } = this.#fileAccess;
    const onConnection = <T>(work: (connection: DuckDBConnection) => Promise<T>) =>
      this.#sessions.with(undefined, started, ({ connection }) => locateErrors('', 0, () => work(connection)));
    return {
      compareTables: ({ catalog, expected }: Operations['compareTables'][0]) =>
        onConnection((connection) => compareTables(connection, catalog.name, expected)),
      readWholeTable: (table: TableRef) => onConnection((connection) => readWholeTable(connection, table)),
      isAttached: (catalog: CatalogRef) => onConnection((connection) => isAttached(connection, dataDirectory, catalog)),
      checkFile: ({ catalog, expected }: Operations['checkFile'][0]) =>
        onConnection((connection) =>
          faultsWithin(connection, catalogFile(dataDirectory, catalog), catalog.identity, expected, signal),
        ),
    };
  }

  /** Runs in a process without files, one statement at a time. */
  #bind({ statement, objects }: Operations['bind'][0], started: Interruptible): Promise<StatementAnalysis> {
    return this.#sessions.with(undefined, started, (session) =>
      locateErrors(statement.sql, 0, async () => {
        await this.#copies.create(session.connection, objects, () => session.leave());
        await enter(session, statement);
        return bindStatement(session, statement, objects, this.#unreviewed);
      }),
    );
  }

  async #inScratch<T>(sql: string, work: (scratch: DuckDBConnection) => Promise<T>): Promise<T> {
    this.#scratch ??= openScratch(this.#spec).then((instance) => instance.connect());
    const scratch = await this.#scratch;
    return locateErrors(sql, 0, () => work(scratch));
  }

  #execute(
    { statement, options, writes, inserts }: Operations['execute'][0],
    started: Interruptible,
    signal: AbortSignal,
  ): Promise<StatementResult> {
    const [written] = writes;
    const key = written ? undefined : preparedKey(statement);
    const requireCurrent = () => {
      if (this.#definitions.changedSince(Number(options.token), options.tables)) throw new StaleAnalysis();
      if (signal.aborted) throw new Failure('STATEMENT_CANCELLED', 'the statement was cancelled');
    };
    requireCurrent();
    const run = async (session: Session, runningWrite: RunningWrite) => {
      requireCurrent();
      if (options.into) {
        const { own } = this.#fileAccess;
        return locateErrors(statement.sql, linesAbove, () =>
          exportQuery(session, statement, options, { workDirectory: own, digests: this.#digests, requireCurrent }),
        );
      }
      if (!written) return this.#select(session, statement, options);
      const once = { catalog: written.catalog, runningWrite, requireCurrent };
      const attempt = () => write(session, statement, options, once);
      const runWriting = () => this.#data.trackWrites(options.tables, attempt);
      const runRemoving = () =>
        inserts ? this.#removals.trackFailedWrites(writes, runWriting) : this.#removals.trackWrites(writes, runWriting);
      return locateErrors(statement.sql, 0, () => retryingConflicts(runRemoving, signal));
    };
    const runInSession = (runningWrite: RunningWrite) =>
      this.#inNamespace(statement, key, started, (session) =>
        withPlan(session, statement, options.planAfterMs, () => run(session, runningWrite)),
      );
    return this.#lateSteps.during(options.resultPath, runInSession);
  }

  async #select(session: Session, statement: WireStatement, options: WireOptions): Promise<StatementResult> {
    if (this.#knownSelects.size > knownSelectsMax) this.#knownSelects.clear();
    const file = join(this.#fileAccess.own, basename(rowsFile(options.resultPath)));
    const select = (epoch: number | undefined) =>
      locateErrors(statement.sql, linesAbove, () =>
        runSelect(session, statement, options, file, this.#knownSelects, epoch, this.#definitions.watch()),
      );
    const profile = () => locateErrors(statement.sql, linesAboveExplained, () => profileStatement(session, statement));
    const epoch = this.#data.latestOf(options.tables);
    let result = await (options.profile ? profile() : select(epoch));
    // Rows were written between planning and execution: the result may be wrong. A profile is planned and executed at once.
    if (!options.profile && epoch !== undefined && this.#data.latestOf(options.tables) !== epoch)
      result = await select(undefined);
    // A concurrent change may have given a name another meaning: the rows are not returned then.
    if (this.#definitions.changedSince(Number(options.token), options.tables)) throw new StaleAnalysis();
    return result;
  }

  async #apply(
    { change, step }: Operations['apply'][0],
    started: Interruptible,
    signal: AbortSignal,
    stage: Stage | undefined,
  ): Promise<Applied | undefined> {
    this.#invalidate(change);
    const apply = () =>
      this.#sessions.with(undefined, started, async (session) => {
        if (session.catalog !== undefined) await session.leave();
        return locateErrors('', 0, () =>
          applyChange(session.connection, change, {
            dataDirectory: this.#fileAccess.dataDirectory,
            step,
            signal,
            stage,
            report: this.#report,
          }),
        );
      });
    try {
      if (nameChangingKinds.has(change.kind) && 'catalog' in change) {
        await this.#snapshots.endOf(change.catalog);
        return await this.#sessions.exclusive(change.catalog.name, apply);
      }
      if (!('table' in change)) return await apply();
      const { catalog, database, table } = change.table;
      return await this.#removals.trackWrites([{ catalog: catalog.name, database, table }], apply);
    } finally {
      this.#invalidate(change);
    }
  }

  #invalidate(change: Change): void {
    this.#definitions.note(change);
    this.#views.note(change);
    this.#objects.note(change);
    this.#data.markAllChanged();
    if (change.kind.startsWith('create')) return; // what was bound before keeps its meaning
    this.#removals.markAllChanged();
    this.#knownSelects.clear();
    this.#sessions.forgetAll();
  }

  async #insertRows(
    { table, batch: rows, definition, steps }: Operations['insertRows'][0],
    started: Interruptible,
    signal: AbortSignal,
  ): Promise<number> {
    const batch = 'file' in rows ? (deserialize(await readFile(rows.file)) as RowsBatch) : rows;
    const written = { catalog: table.catalog.name, database: table.database, table: table.table };
    return this.#sessions.with(undefined, started, ({ connection }) => {
      const attempt = () => insertRows(connection, table, batch, definition, { signal, steps });
      return locateErrors('', 0, () => retryingConflicts(() => trackInsert(this.#epochs, written, attempt), signal));
    });
  }

  /** Runs the work in a session whose default is the namespace. */
  async #inNamespace<T>(
    namespace: Namespace,
    key: string | undefined,
    started: Interruptible,
    work: (session: Session) => Promise<T>,
  ): Promise<T> {
    const { name } = namespace.catalog;
    for (;;) {
      if (this.#sessions.isClosed(name)) await this.#sessions.opened(name);
      const done = await this.#sessions.with(key, started, async (session) => {
        // The catalog may have been closed while this waited for a session.
        if (this.#sessions.isClosed(name)) {
          if (session.catalog === name) await session.leave();
          return undefined;
        }
        await enter(session, namespace);
        return { value: await work(session) };
      });
      if (done) return done.value;
    }
  }
}

/** How a statement is applied only once: its step is recorded in `catalog`, to which it writes. */
interface Once {
  readonly catalog: string;
  readonly runningWrite: RunningWrite;
  /** Throws if the statement must not run any more. */
  readonly requireCurrent: () => void;
}

/** Runs a statement that writes in a transaction of its own. */
async function write(
  session: Session,
  statement: WireStatement,
  options: WireOptions,
  { catalog, runningWrite, requireCurrent }: Once,
): Promise<StatementResult> {
  const { connection } = session;
  runningWrite.attempt();
  await connection.run('BEGIN TRANSACTION');
  try {
    requireCurrent();
    const result = await runWrite(session, statement, options, catalog);
    requireCurrent();
    const step = runningWrite.committing();
    if (step !== undefined) await rememberStep(connection, catalog, step, result.rowCount);
    await commit(connection);
    return result;
  } catch (error) {
    // An interrupted ROLLBACK leaves the transaction open; `Sessions.with` then ends it.
    await connection.run('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** Makes the statement's namespace the default of the session. Throws CHANGE_IN_PROGRESS if the namespace does not exist (any more). */
async function enter(session: Session, namespace: Namespace): Promise<void> {
  try {
    await session.use(namespace);
  } catch (error) {
    // Everything else, such as a database that a fatal error has invalidated, has nothing to do with the name.
    const isMissing = error instanceof Error && /^(?:Catalog|Binder) Error/.test(error.message);
    if (!isMissing) throw failureOf(error, { sql: '', linesAbove: 0 });
    const name = namespace.database ?? namespace.catalog.name;
    throw new Failure('CHANGE_IN_PROGRESS', `${JSON.stringify(name)} is being changed`, {}, { cause: error });
  }
}

type Call = Extract<ToEngine, { readonly kind: 'call' }>;

interface Running {
  readonly abort: AbortController;
  connection: DuckDBConnection | undefined;
  interruptTimer: NodeJS.Timeout | undefined;
}

function main(): void {
  // Loaded only to fill the compile cache (see compile_cache.ts): exit.
  if (process.send === undefined) return;
  let worker: Worker | undefined;
  const running = new Map<number, Running>();
  const send = (message: FromEngine) => {
    if (process.connected) process.send?.(message);
  };
  const call = async ({ id, operation, argument, ...options }: Call): Promise<unknown> => {
    if (operation === 'prepare') {
      const { worker: preparedWorker, ...prepared } = await Worker.prepare(argument as Operations['prepare'][0], send);
      worker = preparedWorker;
      return prepared;
    }
    if (!worker) throw new Error('the engine is not prepared');
    if (operation === 'attach') return worker.attach(argument as Operations['attach'][0]);
    if (operation === 'close') return worker.close();
    const entry: Running = { abort: new AbortController(), connection: undefined, interruptTimer: undefined };
    running.set(id, entry);
    const started: Interruptible = (connection) => {
      entry.connection = connection;
    };
    const reportProgress = (fraction: number) => send({ kind: 'progress', id, fraction });
    const progress = options.progress ? new CallProgress(() => entry.connection, reportProgress) : undefined;
    try {
      return await worker.run(operation, argument, started, entry.abort.signal, progress?.stage);
    } finally {
      progress?.end();
      clearInterval(entry.interruptTimer);
      running.delete(id);
    }
  };
  process.on('message', (message: ToEngine) => {
    if (message.kind === 'interrupt') {
      const entry = running.get(message.id);
      if (!entry || entry.abort.signal.aborted) return;
      entry.abort.abort();
      entry.connection?.interrupt();
      entry.interruptTimer = setInterval(() => entry.connection?.interrupt(), interruptIntervalMs);
      return;
    }
    const { id } = message;
    call(message).then(
      (value) => send({ kind: 'answer', id, value }),
      (error: unknown) => {
        const fault = faultOf(error);
        send({ kind: 'fault', id, fault });
      },
    );
  });
  // Without its server the process is useless, and holds files that the next one needs. It exits at once: the files are consistent
  // at any instant, and a statement that ignores interrupts would delay an orderly exit.
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  // Ctrl-C at a terminal signals the whole process group; the server decides when to stop.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
  let spilled = 0;
  setInterval(() => {
    // Sends the previous measurement: a slow disk must not delay the heartbeat.
    worker?.spilledBytes().then((bytes) => {
      spilled = bytes;
    });
    send({
      kind: 'heartbeat',
      residentBytes: process.memoryUsage.rss(),
      spilledBytes: spilled,
      runningStatements: worker?.runningStatements ?? 0,
    });
  }, heartbeatMs).unref();
}

main();
