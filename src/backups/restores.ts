// Restores: a catalog or a database made from a backup under another name, by a task (jobs/restore_backup.ts). Nobody sees it before it
// is whole (catalog/changes/create_by_task.ts). Grants are not in a backup: all that is made is its maker's.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { NewChild, NewChildren } from '../catalog/object.ts';
import type { CatalogRef, Engine, EngineWarehouse, TableRef } from '../engines/engine.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import { newId } from '../model/ids.ts';
import { foldName, nameFault } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';
import type { TableDefinition, TableSpec } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';
import type { TaskContext, TaskRecord } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import {
  type BackedUpDatabase,
  type BackedUpTable,
  broken,
  type Manifest,
  manifestPath,
  type TableBody,
} from './manifest.ts';
import { restoredViews, type ViewToRestore } from './restored_views.ts';
import {
  type BackupTarget,
  backupsAmong,
  filesAt,
  manifestAt,
  noBackup,
  type TargetFile,
} from './targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from './targets/backup_targets.ts';
import { downloadPart } from './targets/download_part.ts';
import type { TargetSecret, TargetSecrets } from './targets/target_secrets.ts';

export const restoreTask = 'restore';

/** What a task keeps of it; the credentials are sealed beside it. */
export interface RestoreRequest {
  readonly category: 'catalogs' | 'databases';
  readonly name: string;
  readonly from: TargetRequest;
  /** Absent: the newest that fits. */
  readonly backupId?: string | undefined;
  /** Of a backup, this database alone. */
  readonly database?: string | undefined;
  readonly warehouse: string;
  /** Of a database, the catalog that it comes into. */
  readonly catalog?: CatalogRef | undefined;
}

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly tasks: Pick<Tasks, 'get'>;
  readonly notes: TargetSecrets;
  readonly places: BackupTargets;
  readonly spoolDirectory: string;
  /** Of one file that is fetched. */
  readonly loading: { readonly bytesMax: number; readonly fetchMs: number };
  /** Throws INVALID_PARAMETER where no table can be made so. */
  readonly specOf: (body: TableBody, engine: Engine, warehouse: EngineWarehouse) => Promise<TableSpec>;
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
}

type Run = Pick<TaskContext, 'signal' | 'progress'>;

/** What of a backup is restored. */
interface Chosen {
  readonly manifest: Manifest;
  readonly databases: readonly BackedUpDatabase[];
}

type RestoredDatabase = NewChild & { readonly children: NewChild[] };

interface Work extends Run {
  readonly principal: Principal;
  readonly place: BackupTarget;
  readonly engine: EngineWarehouse;
  readonly staging: string;
  /** An attempt before this one may have brought some of it. */
  readonly isAgain: boolean;
  readonly rows: { done: number; readonly total: number };
}

export class Restores {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get notes(): TargetSecrets {
    return this.#parts.notes;
  }

  get places(): BackupTargets {
    return this.#parts.places;
  }

  async run(task: TaskRecord, run: Run): Promise<object> {
    let done: object = {};
    const object = await this.#parts.catalog.runCreation(task.taskId, {
      signal: run.signal,
      fill: async (objectId) => {
        const within = await this.#filled(task, objectId, run);
        done = within.details ?? {};
        return within;
      },
    });
    return { name: object.name, ...done };
  }

  async #filled(task: TaskRecord, objectId: string, run: Run): Promise<NewChildren> {
    const { notes, places, warehouses, spoolDirectory } = this.#parts;
    const request = task.request as RestoreRequest;
    await this.#authorise(request, task.principal);
    const note = await notes.get(task.taskId);
    if (!note) throw new Failure('REMOTE_REFUSED', 'the credentials of the restore are no longer kept');
    const place = await places.open(request.from, note.credentials, 'from');
    const staging = join(spoolDirectory, 'backups', newId());
    try {
      await mkdir(staging, { recursive: true, mode: 0o700 });
      const files = await filesAt(place, run.signal);
      const chosen = await this.#chosen(task, note, place, files, run.signal);
      await this.#authoriseSource(chosen.manifest, request, task.principal);
      check(chosen.databases, await warehouses.engineOf(request.warehouse), files, this.#parts.loading);
      const total = chosen.databases.flatMap(({ tables }) => tables).reduce((sum, { rows }) => sum + rows, 0);
      const { principal } = task;
      return await warehouses.admit(request.warehouse, { principal, signal: run.signal }, (engine) => {
        const work = { ...run, principal, place, engine, staging, isAgain: task.attempt > 1, rows: { done: 0, total } };
        return this.#restored(request, objectId, chosen, work);
      });
    } catch (error) {
      // A failure, so that what was made is undone at once.
      if (!run.signal.aborted || error instanceof Failure) throw error;
      throw new Failure('STATEMENT_CANCELLED', 'the restore was cancelled; nothing was restored', {}, { cause: error });
    } finally {
      place.close();
      await rm(staging, { recursive: true, force: true });
    }
  }

  /** Rights are those of now: a task may have waited. */
  async #authorise({ category, catalog, warehouse }: RestoreRequest, principal: Principal): Promise<void> {
    const { authorizer, directory } = this.#parts;
    if (!directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
    const parent = category === 'databases' && catalog ? [{ category: 'catalogs', name: catalog.name }] : [];
    await authorizer.require(principal, 'create', { category: 'catalogs', path: parent });
    const path = [{ category: 'warehouses', name: warehouse }];
    await authorizer.require(principal, 'use', { category: 'warehouses', path });
  }

  /**
   * What lies in a directory of the server is not the caller's because the server can read it: it is for who may read the thing itself.
   * Where that is gone, for who may read all. Who has the keys of an object store has what is in it anyway.
   */
  async #authoriseSource({ of }: Manifest, { from }: RestoreRequest, principal: Principal): Promise<void> {
    if (from.kind !== 'directory') return;
    const { authorizer, catalog } = this.#parts;
    const chain = await catalog.findChain(of.id);
    if (!authorizer.isAllowedOn(principal, 'read', 'catalogs', chain))
      throw new Failure(
        'FORBIDDEN',
        'this needs the privilege read on what the backup is of; on all catalogs if it is gone',
      );
  }

  /** The same in every attempt. */
  async #chosen(
    { taskId, request }: TaskRecord,
    note: TargetSecret,
    place: BackupTarget,
    files: ReadonlyMap<string, TargetFile>,
    signal: AbortSignal,
  ): Promise<Chosen> {
    const asked = request as RestoreRequest;
    const wanted = note.chosen?.backupId ?? asked.backupId;
    for (const id of wanted === undefined ? backupsAmong(files) : [wanted]) {
      if (!files.has(manifestPath(id))) throw noBackup(id);
      const { manifest, digest } = await manifestAt(place, id, signal);
      if (note.chosen && note.chosen.digest !== digest) throw broken('its manifest changed while it was restored');
      const databases = databasesOf(manifest, asked);
      if (databases) {
        await this.#parts.notes.put(taskId, { ...note, chosen: { backupId: id, digest } });
        return { manifest, databases };
      }
      if (wanted !== undefined)
        throw new Failure('OBJECT_NOT_FOUND', unfit(manifest, asked), { category: 'backups', name: id });
    }
    throw noBackup();
  }

  async #restored(
    request: RestoreRequest,
    objectId: string,
    { manifest, databases }: Chosen,
    work: Work,
  ): Promise<NewChildren> {
    const { category, name, warehouse } = request;
    const isCatalog = category === 'catalogs';
    const catalog = request.catalog ?? { id: objectId, name };
    const made: RestoredDatabase[] = [];
    const texts: ViewToRestore[] = [];
    for (const { tables, views, ...database } of databases) {
      const ref = { catalog, database: isCatalog ? database.name : name };
      const { signal } = work;
      if (isCatalog) await work.engine.apply({ kind: 'createDatabase', database: ref }, { step: newId(), signal });
      const children: NewChild[] = [];
      for (const table of tables)
        children.push(await this.#table(table, { ...ref, table: table.name }, warehouse, work));
      texts.push(...views.map((view) => ({ database: ref.database, view })));
      made.push({ category: 'databases', name: ref.database, spec: described(database), children });
    }
    const views = await this.#views(texts, catalog, made, work);
    const [only] = made;
    const { backupId, takenAt } = manifest;
    const tables = databases.flatMap((database) => database.tables).length;
    const details = { backupId, takenAt, databases: databases.length, tables, ...views, rows: work.rows.total };
    if (isCatalog) return { spec: { ...described(manifest.of), warehouse }, children: made, details };
    return { spec: only?.spec, children: only?.children ?? [], details };
  }

  /** Adds them to what is in the databases. @returns how many there are, and which were left out. */
  async #views(all: readonly ViewToRestore[], into: CatalogRef, databases: readonly RestoredDatabase[], work: Work) {
    const { catalog, authorizer } = this.#parts;
    const { engine, signal, principal } = work;
    const names = databases.map(({ name }) => name);
    const restoring = { catalog, authorizer, principal, engine, signal, into, databases: names };
    const { made, left } = await restoredViews(all, restoring);
    for (const { database, ...view } of made) databases.find(({ name }) => name === database)?.children.push(view);
    return { views: made.length, ...(left.length === 0 ? {} : { viewsLeft: left }) };
  }

  async #table(table: BackedUpTable, ref: TableRef, warehouse: string, work: Work): Promise<NewChild> {
    const { engine, place, staging, signal, progress, rows } = work;
    const spec = await this.#spec(table, warehouse, engine);
    const definition = this.#parts.definitionOf(spec);
    await engine.apply({ kind: 'createTable', table: ref, definition }, { step: newId(), signal });
    const there = work.isAgain ? (await engine.tableStatistics(ref)).rowCount : 0;
    let rowsBefore = 0;
    for (const part of table.parts) {
      progress({ ...rows, unit: 'rows' });
      if (rowsBefore + part.rows > there) {
        const path = join(staging, `${newId()}.parquet`);
        await downloadPart(place, part, path, { signal, ms: this.#parts.loading.fetchMs });
        try {
          const restored = { table: ref, columns: definition.columns, path, rowsBefore, rows: part.rows };
          await engine.restorePart(restored, { signal });
        } finally {
          await rm(path, { force: true });
        }
      }
      rowsBefore += part.rows;
      rows.done += part.rows;
    }
    progress({ ...rows, unit: 'rows' });
    return { category: 'tables', name: table.name, spec, statistics: await engine.tableStatistics(ref) };
  }

  /** Who wrote the manifest may not be one of ours: it is read as a request would be. */
  async #spec({ name, definition }: BackedUpTable, warehouse: string, engine: EngineWarehouse): Promise<TableSpec> {
    try {
      return await this.#parts.specOf(definition, await this.#parts.warehouses.engineOf(warehouse), engine);
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'INVALID_PARAMETER')) throw error;
      throw broken(`the definition of the table ${JSON.stringify(name)}: ${error.message}`);
    }
  }

  /** A task has ended: its credentials are forgotten. Idempotent. */
  async settle({ taskId }: TaskRecord): Promise<void> {
    await this.#parts.notes.remove(taskId);
  }

  /** What a crash kept from being settled. */
  async sweep(): Promise<void> {
    const { notes, tasks } = this.#parts;
    for (const taskId of await notes.taskIds()) {
      const task = await tasks.get(taskId);
      if (!task || task.endedAt !== null) await notes.remove(taskId);
    }
  }
}

/** Those of a backup that are asked for; undefined: it is none of the kind. */
function databasesOf({ of, databases }: Manifest, { category, database }: RestoreRequest) {
  if (database !== undefined) {
    const found = databases.filter(({ name }) => name === database);
    return found.length === 1 ? found : undefined;
  }
  return of.category === category ? databases : undefined;
}

function unfit({ of }: Manifest, { category, database }: RestoreRequest): string {
  if (database !== undefined) return `the backup has no database ${JSON.stringify(database)}`;
  if (category === 'catalogs') return 'the backup is of a database, which is restored in a catalog';
  return `the backup is of the catalog ${JSON.stringify(of.name)}: "database" says which of its databases is meant`;
}

function described({ comment, properties }: { readonly comment?: string; readonly properties?: object }) {
  return { ...(comment === undefined ? {} : { comment }), ...(properties === undefined ? {} : { properties }) };
}

/** Before anything is made: names that can be, and files that are there. */
function check(
  databases: readonly BackedUpDatabase[],
  engine: Engine,
  files: ReadonlyMap<string, TargetFile>,
  { bytesMax }: { readonly bytesMax: number },
): void {
  checkNames('databases', databases, engine);
  for (const { tables, views } of databases) {
    checkNames('tables', [...tables, ...views], engine);
    for (const { path, bytes } of tables.flatMap(({ parts }) => parts)) {
      const file = path.split('/').at(-1);
      const found = files.get(path);
      if (bytes > bytesMax) throw broken(`the file ${file} is larger than ${bytesMax} bytes`, { file, bytesMax });
      if (!found) throw broken(`the file ${file} is not there`, { file });
      if (found.bytes !== bytes) throw broken(`the file ${file} has ${found.bytes} bytes, and had ${bytes}`, { file });
    }
  }
}

function checkNames(category: 'databases' | 'tables', all: readonly { readonly name: string }[], engine: Engine): void {
  const folded = new Set<string>();
  for (const { name } of all) {
    const fault = nameFault(name) ?? engine.reservedName(category, name);
    if (fault !== undefined) throw broken(`it names something ${JSON.stringify(name)}: ${fault}`);
    if (folded.has(foldName(name))) throw broken(`it names two things ${JSON.stringify(name)}`);
    folded.add(foldName(name));
  }
}
