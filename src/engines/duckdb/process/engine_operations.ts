// What an engine process can do: owns the DuckDB instance with one file per catalog, and runs the operations of protocol.ts on it.
import { readFile } from 'node:fs/promises';
import { deserialize } from 'node:v8';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { WarehouseSpec } from '../../../model/records.ts';
import type { Change } from '../../port/changes.ts';
import type { CatalogRef } from '../../port/refs.ts';
import type { RowsBatch } from '../../port/rows.ts';
import type { Applied } from '../../port/views.ts';
import { DataVersions, trackInsert, type WriteVersions } from '../analysis/data_versions.ts';
import { DefinitionVersions } from '../analysis/definition_versions.ts';
import { NamedObjectReader } from '../analysis/named_objects.ts';
import { ViewUsage } from '../analysis/view_usage.ts';
import { applyChange, costOf } from '../ddl/apply_change.ts';
import { optimizeTable } from '../ddl/optimize.ts';
import { forgetSteps, retryingConflicts } from '../instance/applied_steps.ts';
import { type Interruptible, Sessions } from '../instance/connection_pool.ts';
import { lockData, openData, openScratch } from '../instance/instances.ts';
import type { Stage } from '../instance/progress.ts';
import { type FileAccess, openWorkDirectory, removeLeftovers, spilledBytes } from '../instance/work_directory.ts';
import { Loads } from '../load/load_operations.ts';
import { buildStatement } from '../query/dml_builder.ts';
import { insertRows } from '../query/insert_rows.ts';
import { RowNumberings } from '../query/row_positions.ts';
import { type ReportPage, Statements } from '../query/statement_operations.ts';
import { Snapshots } from '../snapshot/snapshots.ts';
import { checkDefault } from '../sql/default_expression.ts';
import { unreviewedFunctions } from '../sql/function_allowlist.ts';
import { parseCreateTable } from '../sql/parse_create_table.ts';
import { type AttachMessage, attachEach } from '../storage/attachments.ts';
import { catalogFile, checkpointAttached, hasLog, isAttached, tablesOf } from '../storage/catalog_files.ts';
import { faultsWithin } from '../storage/check_file.ts';
import { compareTables } from '../storage/check_tables.ts';
import { type DirectName, directOperations, isDirect } from './direct_operations.ts';
import type { OperationName, Operations } from './protocol.ts';
import { locateErrors } from './wire_errors.ts';

/** Changes after which a catalog no longer exists under its name, so that no session may have it as its default. */
const nameChangingKinds: ReadonlySet<Change['kind']> = new Set(['renameCatalog', 'hideCatalog', 'dropCatalog']);

interface EngineParts {
  readonly spec: WarehouseSpec;
  readonly fileAccess: FileAccess;
  readonly unreviewed: ReadonlySet<string>;
  readonly report: (message: AttachMessage) => void;
}

export class EngineOperations {
  readonly #instance: DuckDBInstance;
  readonly #spec: WarehouseSpec;
  /**
   * A scratch database for parsing texts that name no table. Opened on first use: a process that has the catalogs' files never
   * needs it.
   */
  #scratch: Promise<DuckDBConnection> | undefined;
  readonly #sessions: Sessions;
  readonly #fileAccess: FileAccess;
  readonly #definitions = new DefinitionVersions();
  readonly #views = new ViewUsage();
  readonly #objects = new NamedObjectReader(this.#definitions, this.#views);
  readonly #versions: WriteVersions = { data: new DataVersions(), removals: new DataVersions() };
  readonly #numberings: RowNumberings;
  readonly #snapshots: Snapshots;
  readonly #statements: Statements;
  readonly #loads: Loads;
  readonly #report: (message: AttachMessage) => void;

  constructor(instance: DuckDBInstance, { spec, fileAccess, unreviewed, report }: EngineParts) {
    this.#report = report;
    this.#instance = instance;
    this.#spec = spec;
    this.#sessions = new Sessions(instance);
    this.#fileAccess = fileAccess;
    this.#numberings = new RowNumberings(fileAccess.dataDirectory, this.#versions.removals);
    const { own } = fileAccess;
    const sessions = this.#sessions;
    const versions = this.#versions;
    this.#statements = new Statements({
      sessions,
      definitions: this.#definitions,
      objects: this.#objects,
      versions,
      workDirectory: own,
      unreviewed,
    });
    this.#loads = new Loads({ sessions, versions, own, unreviewed });
    this.#snapshots = new Snapshots(instance, own, { sessions, versions });
  }

  static async prepare(
    { spec, dataDirectory, spoolDirectory, readableDirectories }: Operations['prepare'][0],
    report: (message: AttachMessage) => void,
  ): Promise<Operations['prepare'][1] & { readonly engine: EngineOperations }> {
    const instance = await openData(spec);
    const connection = await instance.connect();
    const fileAccess = await openWorkDirectory(dataDirectory, spoolDirectory, readableDirectories);
    await lockData(connection, spec, fileAccess);
    const [row] = (await connection.runAndReadAll('SELECT library_version FROM pragma_version()')).getRows();
    const version = String(row?.[0]);
    const unreviewed = await unreviewedFunctions(connection, version);
    connection.closeSync();
    const engine = new EngineOperations(instance, { spec, fileAccess, unreviewed, report });
    await engine.#sessions.warm();
    return { engine, version };
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

  /** Runs an operation other than those of the process itself. `stage`: for its progress. `onPage`: for the pages of a select. */
  async run(
    operation: OperationName,
    argument: unknown,
    started: Interruptible,
    signal: AbortSignal,
    stage?: Stage,
    onPage?: ReportPage,
  ): Promise<unknown> {
    if (isDirect(operation)) {
      const run = directOperations[operation].run as (on: DuckDBConnection, of: unknown) => Promise<unknown>;
      return this.#sessions.with(undefined, started, ({ connection }) => run(connection, argument));
    }
    const operations: {
      [K in Exclude<OperationName, DirectName | 'prepare' | 'attach' | 'close'>]: (
        argument: Operations[K][0],
      ) => Promise<Operations[K][1]>;
    } = {
      ...this.#statements.operations(started, signal, onPage),
      cost: (change) => this.#sessions.with(undefined, started, (session) => costOf(session.connection, change)),
      apply: (request) => this.#apply(request, started, signal, stage),
      forget: ({ catalog, steps }) =>
        this.#sessions.with(undefined, started, ({ connection }) => forgetSteps(connection, catalog, steps)),
      insertRows: (request) => this.#insertRows(request, started, signal),
      ...this.#checkOperations(started, signal),
      ...this.#loads.operations(started, { signal, stage }),
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
      isAttached: (catalog: CatalogRef) => onConnection((connection) => isAttached(connection, dataDirectory, catalog)),
      checkFile: ({ catalog, expected }: Operations['checkFile'][0]) =>
        onConnection((connection) =>
          faultsWithin(connection, catalogFile(dataDirectory, catalog), catalog.identity, expected, signal),
        ),
    };
  }

  async #inScratch<T>(sql: string, work: (scratch: DuckDBConnection) => Promise<T>): Promise<T> {
    this.#scratch ??= openScratch(this.#spec).then((instance) => instance.connect());
    const scratch = await this.#scratch;
    return locateErrors(sql, 0, () => work(scratch));
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
      return await this.#versions.removals.trackWrites([{ catalog: catalog.name, database, table }], apply);
    } finally {
      this.#invalidate(change);
    }
  }

  #invalidate(change: Change): void {
    this.#definitions.note(change);
    this.#views.note(change);
    this.#objects.note(change);
    this.#versions.data.markAllChanged();
    if (change.kind.startsWith('create')) return; // what was bound before keeps its meaning
    this.#versions.removals.markAllChanged();
    this.#statements.forgetSelects();
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
      return locateErrors('', 0, () => retryingConflicts(() => trackInsert(this.#versions, written, attempt), signal));
    });
  }
}
