// Backups: asked for, and done by a task (jobs/back_up.ts). What a backup sends lies in a folder of its own, with the manifest written
// last; files of earlier backups are named where nothing changed. Without a manifest there is no backup, and its folder goes.
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Trail } from '../access/audit/audit_log.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { EngineWarehouse } from '../engines/engine.ts';
import type { Snapshot } from '../engines/snapshot.ts';
import type { Warehouses } from '../engines/warehouses.ts';
import { newId } from '../model/ids.ts';
import type { Actor, Principal } from '../model/principal.ts';
import type { TableSpec } from '../model/records.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import { HandedBack, RetryableError, type TaskContext, type TaskRecord, type TaskRequest } from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { consistentSnapshot, type Definitions, definitionsOf } from './definitions.ts';
import {
  type BackedUpPart,
  folderIdOf,
  folderOf,
  formatVersion,
  type Manifest,
  manifestPath,
  manifestText,
  partsOf,
  type TableBody,
  totalsOf,
} from './manifest.ts';
import { type BackupTarget, backupsAmong, filesAt, manifestAt, type TargetFile } from './targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from './targets/backup_targets.ts';
import { PartUploader, type TableToUpload } from './targets/part_uploader.ts';
import type { TargetSecrets } from './targets/target_secrets.ts';

export const backupTask = 'backup';
/** So many of the last backups of a place are looked at for one of the same object. */
const manifestsLookedAtMax = 100;
/** How long a place that does not answer is asked to let go of what was left there. */
const clearWithinMs = 86_400_000;

/** What a task keeps of it; the credentials are sealed beside it. */
export interface BackupRequest {
  /** Of the catalog or the database, whatever it is called by then. */
  readonly objectId: string;
  readonly to: TargetRequest;
}

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly store: Store;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get'>;
  readonly notes: TargetSecrets;
  readonly places: BackupTargets;
  readonly spoolDirectory: string;
  readonly release: string;
  /** A definition as the body that would make the table. */
  readonly bodyOf: (spec: TableSpec) => TableBody;
}

export class Backups {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The task, its line in the trail and what it must not show, or none of them. Throws what can be said at once. */
  async submit(
    described: Omit<TaskRequest, 'type' | 'request'> & { readonly request: BackupRequest },
    actor: Actor,
    credentials: ObjectStoreCredentials | undefined,
  ): Promise<TaskRecord> {
    const { store, tasks, notes, places, trail } = this.#parts;
    await places.check(described.request.to, 'to');
    const { objectId } = described.request;
    const task = await store.transaction(async (tx) => {
      const made = await tasks.submit({ ...described, type: backupTask }, tx);
      await notes.put(made.taskId, { credentials }, tx);
      await trail.append(tx, actor, { outcome: '0', objectId, details: { taskId: made.taskId } });
      return made;
    });
    tasks.notify();
    return task;
  }

  async run(task: TaskRecord, context: Pick<TaskContext, 'signal' | 'progress'>): Promise<object> {
    const { taskId, principal, target } = task;
    const { objectId, to } = task.request as BackupRequest;
    const definitions = await this.#authorised(objectId, principal);
    const actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
    const place = await this.#open(taskId, to);
    const { signal } = context;
    const details = { taskId, kind: 'backup' };
    try {
      const files = await filesAt(place, signal);
      // An attempt before this one came to the end, and the process died before it could say so.
      if (files.has(manifestPath(taskId))) return resultOf((await manifestAt(place, taskId, signal)).manifest);
      await this.#parts.trail.begin(actor, { objectId, details });
      const { warehouse } = definitions.root.spec;
      const result = await this.#parts.warehouses.admit(warehouse, { principal, signal }, (engine) =>
        this.#taken(engine, { taskId, objectId, place, files }, context),
      );
      this.#parts.trail.enqueue(actor, { outcome: '0', objectId, details });
      return result;
    } catch (error) {
      const fault = signal.aborted ? 'STATEMENT_CANCELLED' : 'INTERNAL_ERROR';
      const outcome = error instanceof Failure ? error.code : fault;
      this.#parts.trail.enqueue(actor, { outcome, objectId, details });
      const mayGoOn = error instanceof Failure ? codes[error.code].status >= 500 : !signal.aborted;
      const isHandedBack = signal.reason instanceof HandedBack;
      if (!mayGoOn && !isHandedBack) await clearUnfinished(place, taskId).catch(() => undefined);
      throw retryable(error);
    } finally {
      place.close();
    }
  }

  /** Rights are those of now: a task may have waited. */
  async #authorised(objectId: string, principal: Principal): Promise<Definitions> {
    const { catalog, authorizer, directory } = this.#parts;
    if (!directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
    const definitions = await definitionsOf(catalog, objectId);
    const { root, of } = definitions;
    if (!authorizer.isAllowedOn(principal, 'read', 'catalogs', root === of ? [root] : [root, of]))
      throw new Failure('FORBIDDEN', 'the submitter may no longer read what is to be backed up');
    const path = [{ category: 'warehouses', name: root.spec.warehouse }];
    await authorizer.require(principal, 'use', { category: 'warehouses', path });
    return definitions;
  }

  async #taken(
    engine: EngineWarehouse,
    of: {
      readonly taskId: string;
      readonly objectId: string;
      readonly place: BackupTarget;
      readonly files: ReadonlyMap<string, TargetFile>;
    },
    { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<object> {
    const { taskId: backupId, objectId, place, files } = of;
    const base = await lastOf(objectId, place, files, signal);
    const staging = join(this.#parts.spoolDirectory, 'backups', newId());
    await mkdir(staging, { recursive: true, mode: 0o700 });
    const taken = await consistentSnapshot(this.#parts.catalog, objectId, engine, signal).catch(async (error) => {
      await rm(staging, { recursive: true, force: true });
      throw error;
    });
    const { definitions, snapshot, takenAt } = taken;
    try {
      const tables = await this.#tables(definitions, snapshot, signal);
      const sender = new PartUploader({ place, backupId, staging, snapshot, signal, progress }, base, files);
      const sent = await sender.send(tables);
      const { release } = this.#parts;
      const manifest = manifestOf({ backupId, takenAt, release }, definitions, tables, sent);
      await settleFiles(place, manifest, signal);
      await place.writeSmall(manifestPath(backupId), manifestText(manifest), signal);
      const { filesSent, bytesSent } = sender;
      return { ...resultOf(manifest), filesSent, bytesSent, since: base?.backupId ?? null };
    } finally {
      await snapshot.close();
      await rm(staging, { recursive: true, force: true });
    }
  }

  async #tables({ databases }: Definitions, snapshot: Snapshot, signal: AbortSignal): Promise<TableToUpload[]> {
    const all: TableToUpload[] = [];
    for (const { object, tables } of databases)
      for (const { id, name, spec } of tables) {
        const ref = { database: object.name, table: name, columns: spec.columns };
        all.push({ id, ref, body: this.#parts.bodyOf(spec), parts: await snapshot.parts(ref, signal) });
      }
    return all;
  }

  /** A task has ended: what it left is taken away unless it succeeded, and its credentials are forgotten. Idempotent. */
  async settle(task: TaskRecord): Promise<void> {
    const { notes } = this.#parts;
    const { taskId, startedAt, state, endedAt } = task;
    if ((await notes.get(taskId)) === undefined) return;
    if (startedAt !== null && state !== 'succeeded') {
      const isLate = endedAt !== null && Date.now() - Date.parse(endedAt) > clearWithinMs;
      try {
        const place = await this.#open(taskId, (task.request as BackupRequest).to);
        await clearUnfinished(place, taskId).finally(() => place.close());
      } catch (error) {
        // Refused for good, or for a day: to try again would not help.
        if (!isLate && !(error instanceof Failure && codes[error.code].status < 500)) throw error;
      }
    }
    await notes.remove(taskId);
  }

  /** What a crash kept from being settled. */
  async sweep(): Promise<void> {
    const { notes, tasks } = this.#parts;
    for (const taskId of await notes.taskIds()) {
      const task = await tasks.get(taskId);
      if (!task) await notes.remove(taskId);
      else if (task.endedAt !== null) await this.settle(task).catch(() => undefined);
    }
  }

  async #open(taskId: string, to: TargetRequest): Promise<BackupTarget> {
    const note = await this.#parts.notes.get(taskId);
    if (!note) throw new Failure('REMOTE_REFUSED', 'the credentials of the backup are no longer kept');
    return this.#parts.places.open(to, note.credentials, 'to');
  }
}

/** What changed under it is read anew by the next attempt. */
function retryable(error: unknown): unknown {
  if (error instanceof Failure && error.code !== 'CHANGE_IN_PROGRESS') return error;
  return error instanceof RetryableError ? error : new RetryableError('the backup was interrupted', { cause: error });
}

/** The last backup of the object that can be read. */
async function lastOf(
  objectId: string,
  place: BackupTarget,
  files: ReadonlyMap<string, TargetFile>,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  for (const id of backupsAmong(files).slice(0, manifestsLookedAtMax)) {
    try {
      const { manifest } = await manifestAt(place, id, signal);
      if (manifest.of.id === objectId) return manifest;
    } catch (error) {
      // One that is broken is nothing to build on.
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
    }
  }
  return undefined;
}

function manifestOf(
  head: Pick<Manifest, 'backupId' | 'takenAt' | 'release'>,
  { root, of, databases }: Definitions,
  tables: readonly TableToUpload[],
  sent: ReadonlyMap<string, BackedUpPart[]>,
): Manifest {
  const described = ({ comment, properties }: { comment?: string; properties?: Readonly<Record<string, string>> }) => ({
    ...(comment === undefined ? {} : { comment }),
    ...(properties === undefined ? {} : { properties: { ...properties } }),
  });
  const bodies = new Map(tables.map(({ id, body }) => [id, body]));
  const category = of === root ? ('catalogs' as const) : ('databases' as const);
  return {
    formatVersion,
    ...head,
    of: { category, id: of.id, name: of.name, catalog: root.name, ...described(of.spec) },
    databases: databases.map(({ object, tables: within, views }) => ({
      id: object.id,
      name: object.name,
      ...described(object.spec),
      tables: within.map(({ id, name }) => {
        const parts = sent.get(id) ?? [];
        const rows = parts.reduce((sum, part) => sum + part.rows, 0);
        return { id, name, definition: bodies.get(id) as TableBody, rows, parts };
      }),
      views: views.map(({ id, name, spec }) => ({ id, name, ...described(spec), sql: spec.sql })),
    })),
  };
}

/** All that is named is there, and nothing else in the folder. Throws RetryableError where a file went meanwhile. */
async function settleFiles(place: BackupTarget, manifest: Manifest, signal: AbortSignal): Promise<void> {
  const named = new Map([...partsOf(manifest)].map(({ part }) => [part.path, part.bytes]));
  const folders = new Set([...named.keys()].map((path) => folderOf(folderIdOf(path) as string)));
  folders.add(folderOf(manifest.backupId));
  const found = new Map<string, number>();
  for (const folder of folders)
    for await (const { path, bytes } of place.list(folder, signal)) {
      found.set(path, bytes);
      const isLeft = folder === folderOf(manifest.backupId) && !named.has(path);
      if (isLeft) await place.remove(path);
    }
  for (const [path, bytes] of named)
    if (found.get(path) !== bytes) throw new RetryableError('a file of an earlier backup went while it was built upon');
}

/** A backup that has its manifest stays, whatever became of its task: others may be built on it. */
async function clearUnfinished(place: BackupTarget, backupId: string): Promise<void> {
  for await (const { path } of place.list(folderOf(backupId))) if (path === manifestPath(backupId)) return;
  await place.clear(folderOf(backupId));
}

const resultOf = (manifest: Manifest) => {
  const { backupId, takenAt } = manifest;
  return { backupId, takenAt, ...totalsOf(manifest) };
};
