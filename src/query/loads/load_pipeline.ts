// What loads are made of, into whichever table: the wish looked at, the file made ready, the engine told, what was left out and what
// came of it kept. In which order, and what else is to be true, is loads.ts' and new_table_loads.ts'.
import { open, rm } from 'node:fs/promises';
import type { Trail } from '../../access/audit/audit_log.ts';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { IdempotencyKeys } from '../../access/idempotency_keys.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { Turn } from '../../engines/admission.ts';
import type { EngineWarehouse } from '../../engines/engine.ts';
import type { CsvOptions, DataFormat, FileShape, LoadColumn, LoadDone, LoadWork } from '../../engines/load.ts';
import type { CatalogRef } from '../../engines/refs.ts';
import type { Warehouses } from '../../engines/warehouses.ts';
import type { FileStore } from '../../files/file_store.ts';
import { foldName } from '../../model/names.ts';
import type { Actor, Principal } from '../../model/principal.ts';
import type { TableDefinition } from '../../model/records.ts';
import type { Observe } from '../../observe/observations.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { codes } from '../../standard/codes.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import type { TaskContext } from '../../tasks/task.ts';
import { LoadProgress } from './load_progress.ts';
import {
  type Compression,
  kindByName,
  type LoadFiles,
  type LoadSource,
  type PreparedFile,
  stagesOf,
} from './load_sources.ts';

/** Of the rows that were left out, a result shows so many. */
const shownRejectsMax = 100;
/** The file of all of them is kept so long. */
export const rejectsLifetimeMs = 86_400_000;
const rejectsLookBytes = 1024 * 1024;

/** What a caller asks for, into whichever table. */
export interface FileInput {
  readonly source: LoadSource;
  readonly format?: DataFormat | undefined;
  readonly compression?: Compression | undefined;
  readonly csv?: CsvOptions | undefined;
  readonly errorsMax?: number | undefined;
  readonly dryRun?: boolean | undefined;
  readonly label?: string | undefined;
}

/** The same with what the name of the file said. */
export interface FileRequest extends FileInput {
  readonly format: DataFormat;
  readonly compression: Compression;
}

export interface LoadResult {
  readonly rowsLoaded: number;
  /** Null where a crash came between the rows and the end of the task, and the file was gone when it was asked again. */
  readonly rowsRejected: number | null;
  /** Of the file, unpacked; null where a crash came in between. */
  readonly bytes: number | null;
  readonly dryRun: boolean;
  /** It was done before, under its label: nothing was done now. */
  readonly repeated: boolean;
  readonly rejectedRows: readonly unknown[];
  /** All of them, one JSON object a line; null where there is none. */
  readonly rejectsFileId: string | null;
}

export interface LoadRun {
  readonly taskId: string;
  readonly principal: Principal;
  readonly actor: Actor;
  readonly signal: AbortSignal;
  readonly progress: TaskContext['progress'];
  /** For an object store. */
  readonly credentials?: ObjectStoreCredentials | undefined;
}

export interface LoadTarget {
  readonly warehouse: string;
  readonly catalog: CatalogRef;
  readonly database: string;
  readonly table: { readonly id: string | undefined; readonly name: string };
  readonly definition: TableDefinition;
}

export interface LoadExecution {
  readonly mode: LoadWork['mode'];
  readonly columns: readonly LoadColumn[] | undefined;
  readonly shape?: FileShape | undefined;
  readonly isUnmade?: boolean | undefined;
}

export interface LoadParts {
  readonly catalog: Pick<Catalog, 'requireNoOpenChange'>;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly trail: Trail;
  readonly keys: Pick<IdempotencyKeys, 'retainStep'>;
  readonly observe: Observe;
  readonly store: Store;
  readonly files: LoadFiles;
  readonly fileStore: Pick<FileStore, 'adopt'>;
}

/** The file of one run, made ready when it is first asked for, and where the rows go that are left out. To be closed. */
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

  /** Throws what can be said of a wish at once. */
  async checked<A extends FileInput>(asked: A, principal: Principal): Promise<A & FileRequest> {
    const { name } = await this.#parts.files.check(asked.source, principal);
    const byName = kindByName(name);
    const format = asked.format ?? byName.format;
    if (format === undefined) throw invalidField('/format', 'is required: the name of the file does not say it');
    const compression = asked.compression ?? byName.compression;
    if (format === 'parquet' && compression !== 'none')
      throw invalidField('/compression', 'is not taken with parquet, which is compressed inside');
    if (asked.csv && format !== 'csv') throw invalidField('/csv', 'is for files of CSV');
    return { ...asked, format, compression };
  }

  async requireUse(warehouse: string, principal: Principal): Promise<void> {
    const path = [{ category: 'warehouses', name: warehouse }];
    await this.#parts.authorizer.require(principal, 'use', { category: 'warehouses', path });
  }

  file(request: FileRequest, run: LoadRun): RunFile {
    return new RunFile(this.#parts.files, request, run);
  }

  /** The rows, in once however often it is run with the step. `manner` may need the file. */
  async load(
    target: LoadTarget,
    request: FileRequest,
    step: string,
    manner: () => Promise<LoadExecution>,
    file: RunFile,
    run: LoadRun,
  ): Promise<LoadResult> {
    const { dryRun = false, errorsMax = 0, label } = request;
    // A crash came between the rows and the end of the task, and what they came from may be gone since.
    const before = dryRun ? undefined : await this.#rowsBefore(target, step);
    const late = before === undefined ? undefined : lateResult(before, errorsMax, label !== undefined);
    if (late && errorsMax === 0) return late;
    const how = await manner().catch((error: unknown) => (late ? undefined : Promise.reject(error)));
    const ready = how && (await file.ready().catch((error: unknown) => (late ? undefined : Promise.reject(error))));
    if (!ready) return late as LoadResult;
    const done = await this.#write(target, request, { ...how, step }, file, run);
    return this.#resultOf(done, request, file, target.table.name, run);
  }

  async #rowsBefore({ warehouse, catalog }: LoadTarget, step: string): Promise<number | undefined> {
    return (await this.#parts.warehouses.use(warehouse)).loadedBefore(catalog, step);
  }

  /** The engine's part, in its turn and told in the trail. */
  async #write(
    { warehouse, catalog, database, table, definition }: LoadTarget,
    request: FileRequest,
    { columns, mode, step, shape, isUnmade }: LoadExecution & { readonly step: string },
    file: RunFile,
    run: LoadRun,
  ): Promise<LoadDone> {
    const { taskId, actor, principal, signal } = run;
    const { path: filePath, bytes } = await file.ready();
    const { format, csv = {}, errorsMax = 0, dryRun = false, label } = request;
    const work: LoadWork = {
      table: { catalog, database, table: table.name },
      definition,
      file: { path: filePath, format, csv, shape },
      columns,
      mode,
      errorsMax,
      dryRun,
      isUnmade,
      rejectsPath: await file.rejectsPath(),
      step,
    };
    const { keys, trail, observe } = this.#parts;
    const { progress } = file;
    const path = [catalog.name, database, table.name];
    return this.#admitted(warehouse, path.join('.'), run, async (engine) => {
      this.#parts.catalog.requireNoOpenChange([path]);
      const started = performance.now();
      if (label === undefined && !dryRun) await keys.retainStep(step, { warehouse, catalogId: catalog.id, taskId });
      const facts = { objectId: table.id, details: { taskId, kind: 'load', mode } };
      await trail.begin(actor, facts);
      try {
        const told = (fraction: number) => progress.at('reading', fraction * bytes, bytes);
        const done = await engine.load(work, { principal, signal, progress: told });
        told(1);
        trail.enqueue(actor, { outcome: '0', ...facts });
        observe({ kind: 'rowsInserted', warehouse, rowCount: done.rowsLoaded, ms: performance.now() - started });
        return done;
      } catch (error) {
        trail.enqueue(actor, { outcome: error instanceof Failure ? error.code : 'INTERNAL_ERROR', ...facts });
        throw error;
      }
    });
  }

  async #admitted<T>(
    warehouse: string,
    named: string,
    turn: Turn,
    work: (engine: EngineWarehouse) => Promise<T>,
  ): Promise<T> {
    const { warehouses } = this.#parts;
    if ((await warehouses.availableBackends(warehouse)) === 0)
      throw new Failure('REPLICAS_UNAVAILABLE', `no replica is available of ${named}`, { tables: [named] });
    return warehouses.admit(warehouse, turn, work);
  }

  /** What is told of it. The file of the rows left out is kept first. */
  async #resultOf(
    done: LoadDone,
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
      rejectsFileId: rejects === undefined ? null : await this.#keepRejects(rejects, table, run),
    };
  }

  async #keepRejects(path: string, table: string, { taskId, principal }: LoadRun): Promise<string | null> {
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
      // The rows are in: that there is no room for the file of the others does not undo it.
      if (error instanceof Failure && codes[error.code].status < 500) return null;
      throw error;
    }
  }

  /** What was done before under the label, or by the task before a crash. */
  async kept(tableId: string, label: string | undefined, taskId: string): Promise<LoadResult | undefined> {
    const row = await this.#parts.store.db
      .selectFrom('load_labels')
      .select(['result', 'task_id'])
      .where('table_id', '=', tableId)
      .where('label', '=', keyOf(label, taskId))
      .executeTakeFirst();
    return row && { ...(JSON.parse(row.result) as LoadResult), repeated: row.task_id !== taskId };
  }

  /** The task that loaded under the label. */
  async taskOf(tableId: string, label: string): Promise<string | undefined> {
    const row = await this.#parts.store.db
      .selectFrom('load_labels')
      .select('task_id')
      .where('table_id', '=', tableId)
      .where('label', '=', keyOf(label, ''))
      .executeTakeFirst();
    return row?.task_id;
  }

  async keep(tableId: string, label: string | undefined, taskId: string, result: LoadResult): Promise<void> {
    await this.#parts.store.db
      .insertInto('load_labels')
      .values({
        table_id: tableId,
        label: keyOf(label, taskId),
        task_id: taskId,
        result: JSON.stringify({ ...result, repeated: false }),
        created_at: Date.now(),
      })
      .onConflict((c) => c.doNothing())
      .execute();
  }

  /** An upload is used up by the load that succeeded. */
  async useUp({ source, dryRun = false }: FileRequest): Promise<void> {
    if (source.upload !== undefined && !dryRun) await this.#parts.files.removeUpload(source.upload);
  }
}

/** Of rows that were in before, and whose file cannot be asked any more. */
function lateResult(rowsLoaded: number, errorsMax: number, repeated: boolean): LoadResult {
  const rowsRejected = errorsMax === 0 ? 0 : null;
  return { rowsLoaded, rowsRejected, bytes: null, dryRun: false, repeated, rejectedRows: [], rejectsFileId: null };
}

const keyOf = (label: string | undefined, taskId: string) =>
  label === undefined ? `task/${taskId}` : `label/${label}`;

export function invalidField(pointer: string, message: string): Failure {
  return new Failure('INVALID_PARAMETER', `${pointer} ${message}`, {
    violations: [{ pointer, rule: 'load', message }],
  });
}

export function requireOneOrigin(columns: readonly LoadColumn[] | undefined): void {
  const names = new Set<string>();
  for (const [i, { name, source, expression }] of (columns ?? []).entries()) {
    if (source !== undefined && expression !== undefined)
      throw invalidField(`/columns/${i}`, 'has `source` or `expression`, not both');
    if (names.has(foldName(name))) throw invalidField(`/columns/${i}/name`, 'stands more than once');
    names.add(foldName(name));
  }
}

/** Of a file of JSON lines. */
async function firstLines(path: string): Promise<unknown[]> {
  const file = await open(path);
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(rejectsLookBytes), 0, rejectsLookBytes, 0);
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n').slice(0, -1);
    return lines.slice(0, shownRejectsMax).map((line) => JSON.parse(line) as unknown);
  } finally {
    await file.close();
  }
}
