// Restores: a task (jobs/restore_backup.ts) creates a catalog or a database from a backup under another name. It is not visible before it
// is complete (catalog/changes/create_by_task.ts). Backups contain no grants: the restorer owns everything that is created.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { TaskResultOf } from '../api/tasks/task_types.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { NewChild, NewChildren } from '../catalog/object.ts';
import type { Engine, EngineWarehouse } from '../engines/port/engine.ts';
import type { CatalogRef, TableRef } from '../engines/port/refs.ts';
import { requireCapability } from '../engines/required_capability.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { newId } from '../model/ids.ts';
import { foldName, nameFault } from '../model/names.ts';
import type { Principal } from '../model/principal.ts';
import type { TableDefinition, TableSpec } from '../model/records.ts';
import { Failure, objectNotFound } from '../standard/failure.ts';
import type { TaskContext, TaskRecord } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import {
  type BackedUpDatabase,
  type BackedUpTable,
  type Manifest,
  manifestPath,
  type TableBody,
  unusableBackup,
} from './manifest.ts';
import { type MetadataCategory, restoredObject } from './metadata_objects.ts';
import { describeBackup, otherBackups } from './other_backups.ts';
import { restoreViews, type ViewToRestore } from './restored_views.ts';
import {
  type BackupTarget,
  backupNotFound,
  listBackupIds,
  listFiles,
  loadManifest,
  manifestsReadMax,
  type TargetFile,
} from './targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from './targets/backup_targets.ts';
import { downloadPart } from './targets/download_part.ts';
import type { TargetSecret, TargetSecrets } from './targets/target_secrets.ts';

export const restoreTask = 'restore';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly restore: RestoreRequest;
  }
}

/** The request of the task; credentials are stored as a secret. */
export interface RestoreRequest {
  readonly category: 'catalogs' | 'databases';
  readonly name: string;
  readonly from: TargetRequest;
  /** Absent: the newest backup that matches. */
  readonly backupId?: string | undefined;
  /** Restore only this database of the backup. */
  readonly database?: string | undefined;
  readonly warehouse: string;
  /** For a database, the catalog that it is restored into. */
  readonly catalog?: CatalogRef | undefined;
}

type Result = TaskResultOf<typeof restoreTask>;
type Details = Omit<Result, 'name'>;
type Restored = NewChildren & { readonly details: Details };

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly tasks: Pick<Tasks, 'get'>;
  readonly secrets: TargetSecrets;
  readonly targets: BackupTargets;
  readonly spoolDirectory: string;
  /** Limits for one downloaded file. */
  readonly loading: { readonly bytesMax: number; readonly fetchMs: number };
  /** Throws INVALID_PARAMETER if such a table cannot be created. */
  readonly specOf: (body: TableBody, engine: Engine, warehouse: EngineWarehouse) => Promise<TableSpec>;
  readonly definitionOf: (spec: TableSpec) => TableDefinition;
  readonly metadataCategories: readonly MetadataCategory[];
}

type Run = Pick<TaskContext, 'signal' | 'progress' | 'isRetry'>;

/** The backup, and the databases of it to restore. */
interface Chosen {
  readonly manifest: Manifest;
  readonly databases: readonly BackedUpDatabase[];
}

type RestoredDatabase = NewChild & { readonly children: NewChild[] };

interface Work extends Run {
  readonly taskId: string;
  readonly principal: Principal;
  readonly target: BackupTarget;
  readonly engine: EngineWarehouse;
  readonly staging: string;
  readonly rows: { done: number; readonly total: number };
}

/** A target and who may restore from it. */
interface SearchedTarget {
  readonly target: BackupTarget;
  readonly files: ReadonlyMap<string, TargetFile>;
  readonly request: RestoreRequest;
  readonly principal: Principal;
}

/** How many backups are read for a message. */
const knownMax = 5;

export class Restores {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get secrets(): TargetSecrets {
    return this.#parts.secrets;
  }

  get targets(): BackupTargets {
    return this.#parts.targets;
  }

  async run(task: TaskRecord<'restore'>, run: Run): Promise<Result> {
    // Empty if a previous attempt committed the object and its task did not end.
    let done: Details = {};
    const object = await this.#parts.catalog.runCreation(task.taskId, {
      signal: run.signal,
      fill: async (objectId) => {
        const children = await this.#fill(task, objectId, run);
        done = children.details;
        return children;
      },
    });
    return { name: object.name, ...done };
  }

  async #fill(task: TaskRecord<'restore'>, objectId: string, run: Run): Promise<Restored> {
    const { secrets, targets, warehouses, spoolDirectory } = this.#parts;
    const request = task.request;
    await this.#authorize(request, task.principal);
    const stored = await secrets.get(task.taskId);
    if (!stored) throw new Failure('REMOTE_REFUSED', 'the credentials of the restore were deleted');
    const target = await targets.open(request.from, stored.credentials, 'from');
    const staging = join(spoolDirectory, 'backups', newId());
    try {
      await mkdir(staging, { recursive: true, mode: 0o700 });
      const files = await listFiles(target, run.signal);
      const chosen = await this.#chooseBackup(task, stored, target, files, run.signal);
      await this.#authorizeSource(chosen.manifest, request, task.principal);
      validateBackup(chosen, await warehouses.engineOf(request.warehouse), files, this.#parts.loading);
      const total = chosen.databases.flatMap(({ tables }) => tables).reduce((sum, { rows }) => sum + rows, 0);
      const { principal } = task;
      const admission = { principal, signal: run.signal, isTask: true } as const;
      return await warehouses.admit(request.warehouse, admission, async (engine) => {
        await this.#authorize(request, principal);
        await this.#authorizeSource(chosen.manifest, request, principal);
        const work = {
          ...run,
          taskId: task.taskId,
          principal,
          target,
          engine,
          staging,
          rows: { done: 0, total },
        };
        return this.#restore(request, objectId, chosen, work);
      });
    } catch (error) {
      // Thrown as a Failure, so that what was created is undone at once.
      if (!run.signal.aborted || error instanceof Failure) throw error;
      throw new Failure('STATEMENT_CANCELLED', 'the restore was cancelled; nothing was restored', {}, { cause: error });
    } finally {
      target.close();
      await rm(staging, { recursive: true, force: true });
    }
  }

  /** Rights are checked again, because the task may have waited, also for its warehouse. */
  async #authorize({ category, catalog, warehouse }: RestoreRequest, principal: Principal): Promise<void> {
    const { authorizer, directory } = this.#parts;
    directory.requireActive(principal);
    const parent = category === 'databases' && catalog ? [{ category: 'catalogs', name: catalog.name }] : [];
    await authorizer.require(principal, 'create', { category: 'catalogs', path: parent });
    await authorizer.requireUse(principal, warehouse);
  }

  /**
   * A backup in a directory of the server is not the caller's just because the server can read it: restoring it requires the privilege to
   * read the original object, or, if that no longer exists, to read all catalogs. Whoever has the keys of an object store can read its
   * contents anyway.
   */
  async #authorizeSource(manifest: Manifest, request: RestoreRequest, principal: Principal): Promise<void> {
    if (!(await this.#mayReadSource(manifest, request, principal)))
      throw new Failure(
        'FORBIDDEN',
        'this needs the privilege read on the object of the backup, or on all catalogs if that no longer exists',
      );
  }

  async #mayReadSource({ of }: Manifest, { from }: RestoreRequest, principal: Principal): Promise<boolean> {
    if (from.kind !== 'directory') return true;
    const { authorizer, catalog } = this.#parts;
    return authorizer.isAllowedOn(principal, 'read', 'catalogs', await catalog.findChain(of.id));
  }

  /** Chooses the backup; every attempt uses the same one. */
  async #chooseBackup(
    { taskId, request, principal }: TaskRecord<'restore'>,
    secret: TargetSecret,
    target: BackupTarget,
    files: ReadonlyMap<string, TargetFile>,
    signal: AbortSignal,
  ): Promise<Chosen> {
    const requestedId = secret.chosen?.backupId ?? request.backupId;
    if (requestedId !== undefined && !files.has(manifestPath(requestedId)))
      throw backupNotFound(requestedId, await this.#unknownReason({ target, files, request, principal }, signal));
    const others = new Set<string>();
    const ids = requestedId === undefined ? listBackupIds(files) : [requestedId];
    for (const id of ids.slice(0, manifestsReadMax)) {
      const { manifest, digest } = await loadManifest(target, id, signal).catch((error: unknown) => {
        throw requestedId === undefined ? naming(id, error) : error;
      });
      if (secret.chosen && secret.chosen.digest !== digest)
        throw unusableBackup('its manifest changed during the restore');
      const databases = databasesOf(manifest, request);
      if (databases) {
        await this.#parts.secrets.put(taskId, { ...secret, chosen: { backupId: id, digest } });
        return { manifest, databases };
      }
      if (requestedId !== undefined) throw objectNotFound('backups', id, mismatchReason(manifest, request));
      if (await this.#mayReadSource(manifest, request, principal)) others.add(describeBackup(manifest));
    }
    const reason = noMatchReason(others, request);
    if (ids.length <= manifestsReadMax) throw backupNotFound(undefined, reason);
    const message = `${reason}; only the newest ${manifestsReadMax} of its ${ids.length} backups were read: name an earlier one in \`backupId\``;
    throw backupNotFound(undefined, message);
  }

  /** Of an id that no backup has: the newest ones that the caller may read. Those that cannot be read are left out. */
  async #unknownReason({ target, files, request, principal }: SearchedTarget, signal: AbortSignal): Promise<string> {
    let newest: string | undefined;
    const known = new Set<string>();
    for (const id of listBackupIds(files).slice(0, knownMax)) {
      const manifest = await loadManifest(target, id, signal).then(
        (read) => read.manifest,
        () => undefined,
      );
      if (!manifest || !(await this.#mayReadSource(manifest, request, principal))) continue;
      newest ??= manifest.backupId;
      known.add(describeBackup(manifest));
    }
    const reason = otherBackups(known);
    return newest === undefined ? reason : `the target has no backup of this id: ${reason}; the newest is ${newest}`;
  }

  async #restore(
    request: RestoreRequest,
    objectId: string,
    { manifest, databases }: Chosen,
    work: Work,
  ): Promise<Restored> {
    const { category, name, warehouse } = request;
    const isCatalog = category === 'catalogs';
    const catalog = request.catalog ?? { id: objectId, name };
    const restored: RestoredDatabase[] = [];
    const texts: ViewToRestore[] = [];
    for (const { tables, views, objects = [], ...database } of databases) {
      const ref = { catalog, database: isCatalog ? database.name : name };
      const { signal } = work;
      if (isCatalog)
        await work.engine.apply(
          { kind: 'createDatabase', database: ref },
          { step: `${work.taskId}/database/${database.id}`, signal },
        );
      const children: NewChild[] = objects.map((object) => restoredObject(object, this.#parts.metadataCategories));
      for (const table of tables)
        children.push(await this.#table(table, { ...ref, table: table.name }, warehouse, work));
      texts.push(...views.map((view) => ({ database: ref.database, view })));
      restored.push({ category: 'databases', name: ref.database, spec: metadataOf(database), children });
    }
    const views = await this.#views(texts, catalog, restored, work);
    const [only] = restored;
    const { backupId, takenAt } = manifest;
    const tables = databases.flatMap((database) => database.tables).length;
    const details = { backupId, takenAt, databases: databases.length, tables, ...views, rows: work.rows.total };
    if (isCatalog) return { spec: { ...metadataOf(manifest.of), warehouse }, children: restored, details };
    return { spec: only?.spec, children: only?.children ?? [], details };
  }

  /** Adds the views to the restored databases. @returns how many were created, and which were omitted. */
  async #views(all: readonly ViewToRestore[], into: CatalogRef, databases: readonly RestoredDatabase[], work: Work) {
    const { catalog, authorizer } = this.#parts;
    const { engine, signal, principal } = work;
    const names = databases.map(({ name }) => name);
    const restoring = { catalog, authorizer, principal, engine, signal, into, databases: names };
    const { restored, omitted } = await restoreViews(all, restoring);
    for (const { database, ...view } of restored) databases.find(({ name }) => name === database)?.children.push(view);
    return { views: restored.length, ...(omitted.length === 0 ? {} : { viewsLeft: omitted }) };
  }

  async #table(table: BackedUpTable, ref: TableRef, warehouse: string, work: Work): Promise<NewChild> {
    const { taskId, engine, target, staging, signal, progress, rows } = work;
    const spec = await this.#spec(table, warehouse, engine);
    const definition = this.#parts.definitionOf(spec);
    // The same in every attempt: a server that has done it does it no second time.
    const step = `${taskId}/table/${table.id}`;
    await engine.apply({ kind: 'createTable', table: ref, definition }, { step, signal });
    const rowsPresent = work.isRetry ? (await engine.tableStatistics(ref)).rowCount : 0;
    let rowsBefore = 0;
    for (const [index, part] of table.parts.entries()) {
      progress({ ...rows, unit: 'rows' });
      if (rowsBefore + part.rows > rowsPresent) {
        const path = join(staging, `${newId()}.parquet`);
        await downloadPart(target, part, path, { signal, ms: this.#parts.loading.fetchMs });
        try {
          const { rows: partRows } = part;
          const restored = { table: ref, columns: definition.columns, path, rowsBefore, rows: partRows };
          await engine.restorePart({ ...restored, step: `${step}/${index}` }, { signal });
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

  /** The manifest may not have been written by this server, so a definition in it is validated like a request. */
  async #spec({ name, definition }: BackedUpTable, warehouse: string, engine: EngineWarehouse): Promise<TableSpec> {
    try {
      return await this.#parts.specOf(definition, await this.#parts.warehouses.engineOf(warehouse), engine);
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'INVALID_PARAMETER')) throw error;
      throw unusableBackup(`the definition of the table ${JSON.stringify(name)}: ${error.message}`);
    }
  }

  /** Called when a task has ended: deletes its credentials. Idempotent. */
  async settle({ taskId }: TaskRecord): Promise<void> {
    await this.#parts.secrets.remove(taskId);
  }

  /** Settles the tasks that a crash left unsettled. */
  async sweep(): Promise<void> {
    const { secrets, tasks } = this.#parts;
    for (const taskId of await secrets.taskIds()) {
      const task = await tasks.get(taskId);
      if (!task || task.endedAt !== null) await secrets.remove(taskId);
    }
  }
}

/** Of a backup that may be the newest one of the object. */
function naming(backupId: string, error: unknown): unknown {
  if (!(error instanceof Failure && error.code === 'DATA_INVALID')) return error;
  const message = `${error.message}; this is the backup ${backupId}: to restore another one, name it in \`backupId\``;
  return new Failure(error.code, message, error.result, { cause: error });
}

/** The requested databases of a backup; undefined if the backup does not match the request. */
function databasesOf({ of, databases }: Manifest, { category, database }: RestoreRequest) {
  if (database !== undefined) {
    const found = databases.filter(({ name }) => name === database);
    return found.length === 1 ? found : undefined;
  }
  return of.category === category ? databases : undefined;
}

/** `others`: descriptions of backups that do not match the request, and that the caller may read. */
function noMatchReason(others: ReadonlySet<string>, { category, database }: RestoreRequest): string {
  const found = otherBackups(others);
  if (others.size === 0) return found;
  if (database !== undefined)
    return `none of the backups in this target has a database ${JSON.stringify(database)}: ${found}`;
  return category === 'catalogs'
    ? `there is no backup of a catalog in this target: ${found}; restore a database into a catalog`
    : `there is no backup of a database in this target: ${found}; name one of the databases in \`database\``;
}

function mismatchReason({ of }: Manifest, { category, database }: RestoreRequest): string {
  if (database !== undefined) return `the backup has no database ${JSON.stringify(database)}`;
  if (category === 'catalogs') return 'this is the backup of a database; restore it into a catalog';
  return `this is the backup of catalog ${JSON.stringify(of.name)}; name one of its databases in "database"`;
}

function metadataOf({ comment, properties }: { readonly comment?: string; readonly properties?: object }) {
  return { ...(comment === undefined ? {} : { comment }), ...(properties === undefined ? {} : { properties }) };
}

/** Checked before anything is created: what the engine supports, valid names, and files that exist. */
function validateBackup(
  { manifest, databases }: Chosen,
  engine: Engine,
  files: ReadonlyMap<string, TargetFile>,
  { bytesMax }: { readonly bytesMax: number },
): void {
  checkNames(databases, (name) => engine.reservedName('databases', name));
  for (const { tables, views, objects = [] } of databases) {
    const hasKey = tables.some(
      ({ definition: { primaryKey, unique_key_constraints: uniqueKey } }) => primaryKey.length + uniqueKey.length > 0,
    );
    if (hasKey) requireCapability(engine, 'enforcedKeys');
    if (views.length > 0) requireCapability(engine, 'views');
    if (tables.some(({ parts }) => parts.length > 0)) requireSameEngine(manifest, engine);
    checkNames([...tables, ...views], (name) => engine.reservedName('tables', name));
    for (const named of Map.groupBy(objects, ({ category }) => category).values()) checkNames(named);
    for (const { path, bytes } of tables.flatMap(({ parts }) => parts)) {
      const file = path.split('/').at(-1);
      const found = files.get(path);
      if (bytes > bytesMax)
        throw unusableBackup(`file ${file} exceeds the limit of ${bytesMax} bytes`, { file, bytesMax });
      if (!found) throw unusableBackup(`file ${file} is missing`, { file });
      if (found.bytes !== bytes)
        throw unusableBackup(`file ${file} has ${found.bytes} bytes instead of ${bytes}`, { file });
    }
  }
}

/** Engines write rows to files each in their own way. */
function requireSameEngine({ engine: writer }: Manifest, engine: Engine): void {
  requireCapability(engine, 'backups');
  if (writer === undefined ? engine.capabilities.catalogSnapshots : writer === engine.name) return;
  throw unusableBackup(
    `its rows were written by ${writer === undefined ? 'another engine' : `the engine ${writer}`}; restore it into a warehouse of that engine, and move the catalog from there`,
  );
}

/** `reservedName`: why the engine does not accept a name. */
function checkNames(
  all: readonly { readonly name: string }[],
  reservedName: (name: string) => string | undefined = () => undefined,
): void {
  const folded = new Set<string>();
  for (const { name } of all) {
    const fault = nameFault(name) ?? reservedName(name);
    if (fault !== undefined) throw unusableBackup(`it contains the invalid name ${JSON.stringify(name)}: ${fault}`);
    if (folded.has(foldName(name))) throw unusableBackup(`it contains the name ${JSON.stringify(name)} twice`);
    folded.add(foldName(name));
  }
}
