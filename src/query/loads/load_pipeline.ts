// Steps common to all loads, whatever the table: validate the request, prepare the file, run the engine, store rejected rows and the
// result. The order of the steps and further conditions are in loads.ts and new_table_loads.ts.

import { open, rm } from 'node:fs/promises';
import type { Trail } from '../../access/audit/audit_log.ts';
import type { IdempotencyKeys } from '../../access/idempotency_keys.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { AdmissionRequest } from '../../engines/admission.ts';
import type { EngineWarehouse } from '../../engines/port/engine.ts';
import type {
  CsvOptions,
  DataFormat,
  DetectedSchema,
  FileLoad,
  FileLoadResult,
  LoadColumn,
} from '../../engines/port/load.ts';
import type { CatalogRef } from '../../engines/port/refs.ts';
import { requireCapability } from '../../engines/required_capability.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { FileStore } from '../../files/file_store.ts';
import { dayMs } from '../../model/durations.ts';
import type { EngineCapability } from '../../model/engine_capabilities.ts';
import { foldName } from '../../model/names.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { TableDefinition } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { codes } from '../../standard/codes.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import type { TaskContext } from '../../tasks/task.ts';
import { isWritten } from '../written_steps.ts';
import { LoadProgress } from './load_progress.ts';
import {
  type Compression,
  fileKindByName,
  type LoadFiles,
  type LoadSource,
  type PreparedFile,
  stagesOf,
} from './load_sources.ts';

/** Maximum number of rejected rows that a result shows. */
const shownRejectsMax = 100;
/** Lifetime of the file with all rejected rows. */
export const rejectsLifetimeMs = dayMs;
const rejectsReadBytesMax = 1024 * 1024;

/** What a caller requests of a load, whatever the table. */
export interface FileInput {
  readonly source: LoadSource;
  readonly format?: DataFormat | undefined;
  readonly compression?: Compression | undefined;
  readonly csv?: CsvOptions | undefined;
  readonly errorsMax?: number | undefined;
  readonly dryRun?: boolean | undefined;
  readonly label?: string | undefined;
}

/** A validated request: what the caller omitted was derived from the file name. */
export interface FileRequest extends FileInput {
  readonly format: DataFormat;
  readonly compression: Compression;
}

export interface LoadResult {
  readonly rowsLoaded: number;
  /** Null if a crash happened between writing the rows and ending the task, and the file was gone when the task ran again. */
  readonly rowsRejected: number | null;
  /** Size of the uncompressed file; null after such a crash. */
  readonly bytes: number | null;
  readonly dryRun: boolean;
  /** The load had been done before under the same label; nothing was loaded this time. */
  readonly repeated: boolean;
  readonly rejectedRows: readonly unknown[];
  /** File with all rejected rows, one JSON object per line; null if no row was rejected. */
  readonly rejectsFileId: string | null;
}

export interface LoadRun {
  readonly taskId: string;
  readonly principal: Principal;
  readonly actor: Actor;
  readonly signal: AbortSignal;
  readonly progress: TaskContext['progress'];
  /** Credentials of the object store. */
  readonly credentials?: ObjectStoreCredentials | undefined;
}

export interface LoadTarget {
  readonly warehouse: string;
  readonly catalog: CatalogRef;
  readonly database: string;
  readonly table: { readonly id: string | undefined; readonly name: string };
  readonly definition: TableDefinition;
  /** Called before the engine begins: the file may have taken hours to arrive. Throws if the caller may no longer load into the table. */
  readonly authorize: () => Promise<unknown>;
}

export interface LoadExecution {
  readonly mode: FileLoad['mode'];
  readonly columns: readonly LoadColumn[] | undefined;
  readonly schema?: DetectedSchema | undefined;
  readonly isNewTable?: boolean | undefined;
}

export interface LoadParts {
  readonly catalog: Pick<Catalog, 'requireNoOpenChange'>;
  readonly warehouses: Warehouses;
  readonly trail: Trail;
  readonly keys: Pick<IdempotencyKeys, 'retainStep' | 'catalogOfStep'>;
  readonly observe: Observe;
  readonly store: Store;
  readonly files: LoadFiles;
  readonly fileStore: Pick<FileStore, 'adopt'>;
}

/** By which an engine does the load of a task once, unless it has a label. */
export const stepOfTask = (taskId: string): string => `load/${taskId}`;

/** The file of one run, prepared on first use, and the path for rejected rows. Must be closed. */
export class RunFile {
  readonly progress: LoadProgress;
  readonly #prepare: () => Promise<PreparedFile>;
  readonly #spoolPath: () => Promise<string>;
  #file: Promise<PreparedFile> | undefined;
  #rejects: Promise<string> | undefined;

  constructor(files: LoadFiles, { source, compression }: FileRequest, run: LoadRun) {
    this.progress = new LoadProgress(stagesOf(source, compression), run.progress);
    this.#prepare = () => files.prepare(source, compression, { ...run, progress: this.progress });
    this.#spoolPath = () => files.spoolPath();
  }

  ready(): Promise<PreparedFile> {
    this.#file ??= this.#prepare();
    return this.#file;
  }

  rejectsPath(): Promise<string> {
    this.#rejects ??= this.#spoolPath();
    return this.#rejects;
  }

  async close(): Promise<void> {
    await this.#file?.then(
      (file) => file.remove(),
      () => undefined,
    );
    if (this.#rejects) await rm(await this.#rejects, { force: true });
  }
}

export class LoadPipeline {
  readonly #parts: LoadParts;

  constructor(parts: LoadParts) {
    this.#parts = parts;
  }

  /**
   * Validates what can be checked before the task runs. Throws INVALID_PARAMETER and NOT_SUPPORTED_BY_ENGINE. An upload that does not exist is
   * accepted if `isLoaded`: the task returns the result of the label without a file, so that callers can ask before they send one.
   */
  async validate<A extends FileInput>(
    warehouse: string,
    input: A,
    principal: Principal,
    isLoaded: (label: string) => Promise<boolean>,
  ): Promise<A & FileRequest> {
    const { source, label, dryRun } = input;
    const byName = await this.#parts.files.check(source, principal).then(
      ({ name }) => fileKindByName(name),
      async (error: unknown) => {
        const canBeLoaded = error instanceof Failure && source.upload !== undefined && !dryRun;
        if (!canBeLoaded || label === undefined || !(await isLoaded(label))) throw error;
        return { format: 'csv', compression: 'none' } as const;
      },
    );
    const format = input.format ?? byName.format;
    if (format === undefined) throw invalidField('/format', 'is required: it cannot be derived from the file name');
    if (format === 'parquet') await this.requireCapability(warehouse, 'parquetFiles');
    const compression = input.compression ?? byName.compression;
    if (format === 'parquet' && compression !== 'none')
      throw invalidField('/compression', 'is not allowed with parquet, which is compressed internally');
    if (input.csv && format !== 'csv') throw invalidField('/csv', 'is only allowed with format csv');
    return { ...input, format, compression };
  }

  async requireCapability(warehouse: string, capability: EngineCapability): Promise<void> {
    requireCapability(await this.#parts.warehouses.engineOf(warehouse), capability);
  }

  file(request: FileRequest, run: LoadRun): RunFile {
    return new RunFile(this.#parts.files, request, run);
  }

  /** Loads the rows at most once across all runs with the same step. `resolveExecution` may read the file. */
  async load(
    target: LoadTarget,
    request: FileRequest,
    step: string,
    resolveExecution: () => Promise<LoadExecution>,
    file: RunFile,
    run: LoadRun,
  ): Promise<LoadResult> {
    const { dryRun = false, errorsMax = 0, label } = request;
    // A crash may have happened between writing the rows and ending the task, and the source may be gone since.
    const rowsBefore = dryRun ? undefined : await this.#rowsLoadedBefore(target, step);
    const recovered =
      rowsBefore === undefined ? undefined : recoveredResult(rowsBefore, errorsMax, label !== undefined);
    if (recovered && errorsMax === 0) return recovered;
    const execution = await resolveExecution().catch((error: unknown) =>
      recovered ? undefined : Promise.reject(error),
    );
    const ready =
      execution && (await file.ready().catch((error: unknown) => (recovered ? undefined : Promise.reject(error))));
    if (!ready) return recovered as LoadResult;
    const done = await this.#write(target, request, { ...execution, step }, file, run);
    return this.#toResult(done, request, file, target.table.name, run);
  }

  /** Whether the rows of an interrupted task count: then the table has them now. False if the task has passed nothing to an engine. */
  async hasLoaded(place: Pick<LoadTarget, 'warehouse' | 'catalog'>, step: string, taskId: string): Promise<boolean> {
    if ((await this.#parts.keys.catalogOfStep(stepOfTask(taskId))) === undefined) return false;
    return isWritten(this.#parts.warehouses, place, step);
  }

  async #rowsLoadedBefore({ warehouse, catalog }: LoadTarget, step: string): Promise<number | undefined> {
    return (await this.#parts.warehouses.use(warehouse)).rowsLoadedByStep(catalog, step);
  }

  /** Runs the load in the engine, under admission and with an audit record. */
  async #write(
    { warehouse, catalog, database, table, definition, authorize }: LoadTarget,
    request: FileRequest,
    { columns, mode, step, schema, isNewTable }: LoadExecution & { readonly step: string },
    file: RunFile,
    run: LoadRun,
  ): Promise<FileLoadResult> {
    const { taskId, actor, principal, signal } = run;
    const { path: filePath, bytes } = await file.ready();
    const { format, csv = {}, errorsMax = 0, dryRun = false, label } = request;
    const work: FileLoad = {
      table: { catalog, database, table: table.name },
      definition,
      file: { path: filePath, format, csv, schema },
      columns,
      mode,
      errorsMax,
      dryRun,
      isNewTable,
      rejectsPath: await file.rejectsPath(),
      step,
    };
    const { keys, trail, observe } = this.#parts;
    const { progress } = file;
    const path = [catalog.name, database, table.name];
    return this.#admitted(warehouse, path.join('.'), run, async (engine) => {
      await authorize();
      this.#parts.catalog.requireNoOpenChange([path]);
      const started = performance.now();
      // That of a label is retained by the engine, and the one of the task shows that it came so far.
      const retained = label === undefined ? step : stepOfTask(taskId);
      if (!dryRun) await keys.retainStep(retained, { warehouse, catalogId: catalog.id, taskId });
      const record = { objectId: table.id, details: { taskId, kind: 'load', mode } };
      await trail.begin(actor, record);
      try {
        const reportRead = (fraction: number) => progress.update('reading', fraction * bytes, bytes);
        const done = await engine.load(work, { principal, signal, progress: reportRead });
        reportRead(1);
        trail.enqueue(actor, { outcome: '0', ...record });
        observe({ kind: 'rowsInserted', warehouse, rowCount: done.rowsLoaded, ms: performance.now() - started });
        return done;
      } catch (error) {
        trail.enqueue(actor, { outcome: error instanceof Failure ? error.code : 'INTERNAL_ERROR', ...record });
        throw error;
      }
    });
  }

  async #admitted<T>(
    warehouse: string,
    table: string,
    admission: AdmissionRequest,
    work: (engine: EngineWarehouse) => Promise<T>,
  ): Promise<T> {
    const { warehouses } = this.#parts;
    await warehouses.requireReplicas(warehouse, [table]);
    return warehouses.admit(
      warehouse,
      { principal: admission.principal, signal: admission.signal, isTask: true },
      work,
    );
  }

  /** Builds the result; stores the file of rejected rows first. */
  async #toResult(
    done: FileLoadResult,
    { label, dryRun = false }: FileRequest,
    file: RunFile,
    table: string,
    run: LoadRun,
  ): Promise<LoadResult> {
    const rejects = done.rowsRejected === 0 ? undefined : await file.rejectsPath();
    return {
      ...done,
      repeated: done.repeated && label !== undefined,
      bytes: (await file.ready()).bytes,
      dryRun,
      rejectedRows: rejects === undefined ? [] : await firstLines(rejects),
      rejectsFileId: rejects === undefined ? null : await this.#storeRejects(rejects, table, run),
    };
  }

  async #storeRejects(path: string, table: string, { taskId, principal }: LoadRun): Promise<string | null> {
    const adopted = this.#parts.fileStore.adopt(path, {
      kind: 'rejects',
      fileId: taskId,
      owner: principal.id,
      createdBy: principal.name,
      scopes: principal.scopes,
      name: `${table}-rejected.ndjson`,
      expiresInMs: rejectsLifetimeMs,
    });
    try {
      return (await adopted).fileId;
    } catch (error) {
      // The rows are loaded: a missing quota for the file of rejected rows must not fail the load.
      if (error instanceof Failure && codes[error.code].status < 500) return null;
      throw error;
    }
  }

  /** The result stored earlier under the label, or by this task before a crash. */
  async findResult(tableId: string, label: string | undefined, taskId: string): Promise<LoadResult | undefined> {
    const row = await this.#parts.store.db
      .selectFrom('load_labels')
      .select(['result', 'task_id'])
      .where('table_id', '=', tableId)
      .where('label', '=', toLabelKey(label, taskId))
      .executeTakeFirst();
    return row && { ...(JSON.parse(row.result) as LoadResult), repeated: row.task_id !== taskId };
  }

  /** The id of the task that loaded under the label. */
  async findLabelTask(tableId: string, label: string): Promise<string | undefined> {
    const row = await this.#parts.store.db
      .selectFrom('load_labels')
      .select('task_id')
      .where('table_id', '=', tableId)
      .where('label', '=', toLabelKey(label, ''))
      .executeTakeFirst();
    return row?.task_id;
  }

  async storeResult(tableId: string, label: string | undefined, taskId: string, result: LoadResult): Promise<void> {
    await this.#parts.store.db
      .insertInto('load_labels')
      .values({
        table_id: tableId,
        label: toLabelKey(label, taskId),
        task_id: taskId,
        result: JSON.stringify({ ...result, repeated: false }),
        created_at: Date.now(),
      })
      .onConflict((c) => c.doNothing())
      .execute();
  }

  /** Deletes the upload after a successful load from it. */
  async consumeUpload({ source, dryRun = false }: FileRequest): Promise<void> {
    if (source.upload !== undefined && !dryRun) await this.#parts.files.removeUpload(source.upload);
  }
}

/** The result of a load whose rows were written by an earlier attempt and whose file can no longer be read. */
function recoveredResult(rowsLoaded: number, errorsMax: number, repeated: boolean): LoadResult {
  const rowsRejected = errorsMax === 0 ? 0 : null;
  return { rowsLoaded, rowsRejected, bytes: null, dryRun: false, repeated, rejectedRows: [], rejectsFileId: null };
}

const toLabelKey = (label: string | undefined, taskId: string) =>
  label === undefined ? `task/${taskId}` : `label/${label}`;

function invalidField(pointer: string, message: string): Failure {
  return invalidParameter(pointer, 'load', message);
}

export function validateColumns(columns: readonly LoadColumn[] | undefined): void {
  const names = new Set<string>();
  for (const [i, { name, source, expression }] of (columns ?? []).entries()) {
    if (source !== undefined && expression !== undefined)
      throw invalidField(`/columns/${i}`, 'must not have both `source` and `expression`');
    if (names.has(foldName(name))) throw invalidField(`/columns/${i}/name`, 'is repeated');
    names.add(foldName(name));
  }
}

/** Reads the first lines of a file of JSON lines. */
async function firstLines(path: string): Promise<unknown[]> {
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(rejectsReadBytesMax), 0, rejectsReadBytesMax, 0);
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n').slice(0, -1);
    return lines.slice(0, shownRejectsMax).map((line) => JSON.parse(line) as unknown);
  } finally {
    await file.close();
  }
}
