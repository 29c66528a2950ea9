// Loads of files into tables: asked for, and done by a task (jobs/load_table.ts). No row passes through the server: it makes the
// file ready, and the engine reads it.
import { open, rm } from 'node:fs/promises';
import type { Trail } from '../access/audit.ts';
import type { Decisions } from '../access/decisions.ts';
import type { IdempotencyKeys } from '../access/idempotency_keys.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { CsvOptions, DataFormat, LoadColumn, LoadDone, LoadWork } from '../engines/load.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import type { FileStore } from '../files/file_store.ts';
import type { Actor, Principal } from '../model/principal.ts';
import type { CatalogSpec, TableSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { Segment } from '../standard/paths.ts';
import type { Store } from '../store/store.ts';
import { type Compression, kindByName, type LoadFiles, type LoadSource } from './load_files.ts';

export const loadTableTask = 'load_table';
/** Of the rows that were left out, a result shows so many. */
const shownRejectsMax = 100;
/** The file of all of them is kept so long. */
export const rejectsLifetimeMs = 86_400_000;
const rejectsLookBytes = 1024 * 1024;

/** What a caller asks for. */
export interface LoadAsked {
  readonly source: LoadSource;
  readonly format?: DataFormat | undefined;
  readonly compression?: Compression | undefined;
  readonly csv?: CsvOptions | undefined;
  readonly columns?: readonly LoadColumn[] | undefined;
  readonly mode?: LoadWork['mode'] | undefined;
  readonly errorsMax?: number | undefined;
  readonly dryRun?: boolean | undefined;
  readonly label?: string | undefined;
}

/** The request of a task. `tableId`: another table that got its name since is not meant. */
export interface LoadRequest extends LoadAsked {
  readonly path: readonly Segment[];
  readonly tableId: string;
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
  /** For an object store. */
  readonly credentials?: ObjectStoreCredentials | undefined;
}

type Chain = [CatalogObject<CatalogSpec>, CatalogObject, CatalogObject<TableSpec>];

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly decisions: Decisions;
  readonly trail: Trail;
  readonly keys: Pick<IdempotencyKeys, 'keepStep'>;
  readonly observe: Observe;
  readonly store: Store;
  readonly files: LoadFiles;
  readonly fileStore: Pick<FileStore, 'adopt'>;
}

export class Loads {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** What the task is to do. Throws what can be said at once. */
  async request(path: readonly Segment[], asked: LoadAsked, principal: Principal): Promise<LoadRequest> {
    const [root, , table] = (await this.#parts.catalog.require(path)) as Chain;
    await this.#requireUse(root.spec.warehouse, principal);
    const { name } = await this.#parts.files.check(asked.source, principal);
    const byName = kindByName(name);
    const format = asked.format ?? byName.format;
    if (format === undefined) throw wrong('/format', 'is required: the name of the file does not say it');
    const compression = asked.compression ?? byName.compression;
    if (format === 'parquet' && compression !== 'none')
      throw wrong('/compression', 'is not taken with parquet, which is compressed inside');
    if (asked.csv && format !== 'csv') throw wrong('/csv', 'is for files of CSV');
    for (const [i, { source, expression }] of (asked.columns ?? []).entries())
      if (source !== undefined && expression !== undefined)
        throw wrong(`/columns/${i}`, 'has `source` or `expression`, not both');
    return { ...asked, path, tableId: table.id, format, compression };
  }

  /** All or nothing; once, however often it is run with the same task or label. */
  async run(request: LoadRequest, run: LoadRun): Promise<LoadResult> {
    const chain = await this.#authorised(request, run.principal);
    const known = await this.#known(request, run.taskId);
    if (known) return known.repeated ? known : this.#finished(request, known);
    const step = stepOf(request, run.taskId);
    // A crash came between the rows and the end of the task, and what they came from may be gone since.
    const before = request.dryRun ? undefined : await this.#rowsBefore(chain, step);
    const asked = request.errorsMax ?? 0;
    const late = before === undefined ? undefined : lateResult(before, asked, request.label !== undefined);
    if (late && asked === 0) return this.#finish(request, run, late);
    const file = await this.#parts.files
      .prepare(request.source, request.compression, run)
      .catch((error: unknown) => (late ? undefined : Promise.reject(error)));
    if (!file) return this.#finish(request, run, late as LoadResult);
    const rejectsPath = await this.#parts.files.spoolPath();
    try {
      const done = await this.#load(request, chain, { path: file.path, rejectsPath }, run);
      const result: LoadResult = {
        ...done,
        repeated: done.repeated && request.label !== undefined,
        bytes: file.bytes,
        dryRun: request.dryRun ?? false,
        rejectedRows: done.rowsRejected === 0 ? [] : await firstLines(rejectsPath),
        rejectsFileId: done.rowsRejected === 0 ? null : await this.#keepRejects(rejectsPath, request, run),
      };
      return await this.#finish(request, run, result);
    } finally {
      await file.remove();
      await rm(rejectsPath, { force: true });
    }
  }

  async #rowsBefore([root]: Chain, step: string): Promise<number | undefined> {
    const engine = await this.#parts.warehouses.use(root.spec.warehouse);
    return engine.loadedBefore({ id: root.id, name: root.name }, step);
  }

  async #finish(request: LoadRequest, { taskId }: LoadRun, result: LoadResult): Promise<LoadResult> {
    await this.#keep(request, taskId, result);
    return this.#finished(request, result);
  }

  /** An upload is used up. */
  async #finished({ source, dryRun }: LoadRequest, result: LoadResult): Promise<LoadResult> {
    if (source.upload !== undefined && !dryRun) await this.#parts.files.removeUpload(source.upload);
    return result;
  }

  /** Rights and names are those of now: a task may have waited. */
  async #authorised(request: LoadRequest, principal: Principal): Promise<Chain> {
    const { catalog, decisions } = this.#parts;
    await decisions.require(principal, 'write', { category: 'catalogs', path: request.path });
    const chain = (await catalog.require(request.path)) as Chain;
    await this.#requireUse(chain[0].spec.warehouse, principal);
    const [, , table] = chain;
    if (table.id === request.tableId) return chain;
    throw new Failure('OBJECT_NOT_FOUND', 'the table that was to be loaded is no more', {
      category: 'tables',
      name: table.name,
    });
  }

  async #requireUse(warehouse: string, principal: Principal): Promise<void> {
    const path = [{ category: 'warehouses', name: warehouse }];
    await this.#parts.decisions.require(principal, 'use', { category: 'warehouses', path });
  }

  async #load(
    request: LoadRequest,
    [root, database, table]: Chain,
    paths: { readonly path: string; readonly rejectsPath: string },
    { taskId, actor, signal }: LoadRun,
  ): Promise<LoadDone> {
    const { warehouses, keys, trail, observe } = this.#parts;
    const { warehouse } = root.spec;
    if ((await warehouses.availableBackends(warehouse)) === 0) {
      const named = [root.name, database.name, table.name].join('.');
      throw new Failure('REPLICAS_UNAVAILABLE', `no replica is available of ${named}`, { tables: [named] });
    }
    const { label, mode = 'append', format, csv = {} } = request;
    const work: LoadWork = {
      table: { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name },
      definition: table.spec,
      file: { path: paths.path, format, csv },
      columns: request.columns,
      mode,
      errorsMax: request.errorsMax ?? 0,
      dryRun: request.dryRun ?? false,
      rejectsPath: paths.rejectsPath,
      step: stepOf(request, taskId),
    };
    return warehouses.admit(warehouse, signal, async (engine) => {
      const started = performance.now();
      if (label === undefined && !work.dryRun) await keys.keepStep(work.step, { warehouse, catalogId: root.id });
      await trail.tell(actor, { outcome: 'begun', objectId: table.id, details: { taskId, kind: 'load', mode } });
      const note = (outcome: '0' | Failure['code'] | 'INTERNAL_ERROR') =>
        trail.note(actor, { outcome, objectId: table.id, details: { taskId, kind: 'load', mode } });
      try {
        const done = await engine.load(work, { signal });
        note('0');
        observe({ kind: 'rowsInserted', warehouse, rowCount: done.rowsLoaded, ms: performance.now() - started });
        return done;
      } catch (error) {
        note(error instanceof Failure ? error.code : 'INTERNAL_ERROR');
        throw error;
      }
    });
  }

  async #keepRejects(path: string, request: LoadRequest, { taskId, principal }: LoadRun): Promise<string | null> {
    const adopted = this.#parts.fileStore.adopt(path, {
      kind: 'rejects',
      fileId: taskId,
      owner: principal.id,
      createdBy: principal.name,
      scopes: principal.scopes,
      name: `${request.path.at(-1)?.name}-rejected.ndjson`,
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

  /** What was done before under the label, or by the task before a crash: an upload that was used up is gone then. */
  async #known({ tableId, label, dryRun }: LoadRequest, taskId: string): Promise<LoadResult | undefined> {
    if (dryRun) return undefined;
    const row = await this.#parts.store.db
      .selectFrom('load_labels')
      .select(['result', 'task_id'])
      .where('table_id', '=', tableId)
      .where('label', '=', keyOf(label, taskId))
      .executeTakeFirst();
    return row && { ...(JSON.parse(row.result) as LoadResult), repeated: row.task_id !== taskId };
  }

  async #keep({ tableId, label, dryRun, source }: LoadRequest, taskId: string, result: LoadResult): Promise<void> {
    if (dryRun || (label === undefined && source.upload === undefined)) return;
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
}

/** The engine forgets a task's step some days later; a label's with its table. */
const stepOf = ({ label, tableId }: LoadRequest, taskId: string) =>
  label === undefined ? `load/${taskId}` : `label/${tableId}/${label}`;

/** Of rows that were in before, and whose file cannot be asked any more. */
function lateResult(rowsLoaded: number, errorsMax: number, repeated: boolean): LoadResult {
  const rowsRejected = errorsMax === 0 ? 0 : null;
  return { rowsLoaded, rowsRejected, bytes: null, dryRun: false, repeated, rejectedRows: [], rejectsFileId: null };
}

const keyOf = (label: string | undefined, taskId: string) =>
  label === undefined ? `task/${taskId}` : `label/${label}`;

function wrong(pointer: string, message: string): Failure {
  return new Failure('INVALID_PARAMETER', `${pointer} ${message}`, {
    violations: [{ pointer, rule: 'load', message }],
  });
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
