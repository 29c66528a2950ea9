// Backups of the whole server: asked for, done by a task (jobs/back_up_server.ts), recorded as objects of a category of their own, and
// deleted with their files. What is copied, and how it is of one instant, is server_copy.ts and server_snapshot.ts.
import { addAbortListener } from 'node:events';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { newId } from '../../model/ids.ts';
import { type Actor, type Principal, systemActor } from '../../model/principal.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import { RetryableError, type TaskContext, type TaskRecord, type TaskRequest } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { BackupTarget } from '../targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from '../targets/backup_targets.ts';
import type { TargetSecrets } from '../targets/target_secrets.ts';
import { type CopiedServer, copyServer } from './server_copy.ts';
import {
  type CatalogLeftOut,
  serverFolder,
  serverManifestAt,
  serverManifestPath,
  serverTotals,
} from './server_manifest.ts';
import { type SnapshotParts, serverSnapshot } from './server_snapshot.ts';

export const serverBackupTask = 'server_backup';
export const serverBackupsCategory = 'server_backups';
/** Of the names of its secrets. */
export const serverBackupNotes = 'server backup ';
const pageSize = 1000;
/** What the service does by itself, as the audit trail names it. */
const deleteBegun = 'server_backups.begin_delete';
/** How long a deletion waits for the task that makes the backup to stop. */
const stopWaitMs = 10_000;

/** What a task keeps of it; the credentials are sealed beside it. */
export interface ServerBackupRequest {
  /** Of the record. */
  readonly objectId: string;
  readonly name: string;
  readonly to: TargetRequest;
}

/** What is recorded. `creating` until the task has ended; `deleting` once files may be gone. */
export interface ServerBackupSpec {
  /** Its task's too. */
  readonly backupId: string;
  readonly to: TargetRequest;
  readonly status: 'creating' | 'ready' | 'failed' | 'deleting';
  readonly reason?: string;
  readonly takenAt?: string;
  readonly bytes?: number;
  readonly release?: string;
  readonly catalogs?: readonly string[];
  readonly catalogsLeftOut?: readonly CatalogLeftOut[];
}

export type ServerBackup = CatalogObject<ServerBackupSpec>;

interface Parts extends CopiedServer, SnapshotParts {
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get' | 'cancel' | 'wait'>;
  /** By the id of the backup; they stay as long as its record, so that its files can be deleted. */
  readonly notes: TargetSecrets;
  readonly places: BackupTargets;
}

export interface ServerBackupAsked {
  /** Without it, the backup is called as its id. */
  readonly name: string | undefined;
  readonly to: TargetRequest;
  readonly credentials: ObjectStoreCredentials | undefined;
  readonly ifExists: 'fail' | 'return';
  readonly task: (name: string) => Omit<TaskRequest, 'type' | 'request' | 'taskId'>;
}

export class ServerBackups {
  readonly #parts: Parts;
  /** Ends when all backups that were begun have ended: the store is pinned for one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The record and its task, or neither. `taskId` is absent where the record exists and `ifExists` is `return`. */
  async submit(
    { name, to, credentials, ifExists, task }: ServerBackupAsked,
    actor: Actor,
  ): Promise<{ readonly object: ServerBackup; readonly taskId?: string }> {
    const { catalog, tasks, notes, places } = this.#parts;
    this.#requirePassphrase(to);
    await places.check(to, 'to');
    const backupId = newId();
    const called = name ?? backupId;
    // A request that is sent again is answered with the task: the task's submission marks the key.
    const maker: Actor = { ...actor, guard: undefined };
    const spec: ServerBackupSpec = { backupId, to, status: 'creating' };
    const { object, created } = await catalog.create<ServerBackupSpec>({
      parent: null,
      category: serverBackupsCategory,
      name: called,
      spec,
      principal: maker,
      ifExists,
      inTransaction: async (tx, objectId) => {
        actor.writing = true;
        const request: ServerBackupRequest = { objectId, name: called, to };
        await notes.put(backupId, { credentials }, tx);
        await tasks.submit({ ...task(called), taskId: backupId, type: serverBackupTask, request }, tx);
      },
    });
    if (!created) return { object };
    actor.audited = true;
    actor.changed = true;
    tasks.notify();
    return { object, taskId: backupId };
  }

  async run(task: TaskRecord, context: Pick<TaskContext, 'signal' | 'progress'>): Promise<object> {
    const { signal } = context;
    const before = this.#last;
    const ended = Promise.withResolvers<void>();
    this.#last = before.then(() => ended.promise);
    try {
      await unlessAborted(before, signal);
      return await this.#run(task, context);
    } catch (error) {
      if (error instanceof Failure || error instanceof RetryableError || signal.aborted) throw error;
      throw new RetryableError('the backup was interrupted', { cause: error });
    } finally {
      ended.resolve();
    }
  }

  async #run(
    { taskId: backupId, principal, target, request }: TaskRecord,
    { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<object> {
    const { objectId, to } = request as ServerBackupRequest;
    signal.throwIfAborted();
    await this.#authorise(principal);
    const actor: Actor = { id: principal.id, name: principal.name, action: 'tasks.run', target };
    const place = await this.#open(backupId, to);
    try {
      // An attempt before this one came to the end, and the process died before it could record that.
      if (!(await hasManifest(place, backupId, signal))) {
        this.#requirePassphrase(to);
        const take = () => serverSnapshot(this.#parts, signal);
        const { heldMs } = await copyServer(this.#parts, take, { place, backupId, signal, progress });
        await this.#record(objectId, backupId, place, actor);
        return { ...(await resultOf(place, backupId)), heldMs };
      }
      await this.#record(objectId, backupId, place, actor);
      return await resultOf(place, backupId);
    } finally {
      place.close();
    }
  }

  /** Throws INVALID_PARAMETER where the keys would be plain in an object store. The passphrase may be another one when the task runs. */
  #requirePassphrase(to: TargetRequest): void {
    if (to.kind !== 's3' || !this.#parts.sealer.isPlain) return;
    const [pointer, rule] = ['/to/s3', 'passphrase'];
    const message =
      'is not accepted by a server without a passphrase: its keys would be plain in the object store. Start it with TABULARIUM_BACKUP_PASSPHRASE.';
    throw new Failure('INVALID_PARAMETER', `${pointer} ${message}`, { violations: [{ pointer, rule, message }] });
  }

  /** Rights are those of now: a task may have waited. Throws FORBIDDEN. */
  async #authorise(principal: Principal): Promise<void> {
    const { directory, authorizer } = this.#parts;
    if (!directory.isActive(principal)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
    await authorizer.require(principal, 'own', { category: serverBackupsCategory, path: [] });
  }

  async #record(objectId: string, backupId: string, place: BackupTarget, actor: Actor): Promise<void> {
    const manifest = await serverManifestAt(place, backupId);
    const { takenAt, release, catalogs, catalogsLeftOut } = manifest;
    const { bytes } = serverTotals(manifest);
    await this.#change(objectId, actor, { status: 'ready', takenAt, bytes, release, catalogs, catalogsLeftOut });
  }

  /** Only while it is `creating`: one that is being deleted stays so. */
  async #change(objectId: string, actor: Actor, change: Partial<ServerBackupSpec>): Promise<void> {
    const { catalog } = this.#parts;
    await catalog.retrying(async () => {
      const object = (await catalog.byId(objectId)) as ServerBackup | undefined;
      if (object?.spec.status === 'creating')
        await catalog.update(object, { spec: { ...object.spec, ...change }, principal: actor });
    });
  }

  /** The task of a backup has ended: what it left goes, unless it has its manifest. Idempotent. */
  async settle(task: Pick<TaskRecord, 'taskId' | 'state' | 'error' | 'request' | 'principal'>): Promise<void> {
    const { objectId, to } = task.request as ServerBackupRequest;
    const object = (await this.#parts.catalog.byId(objectId)) as ServerBackup | undefined;
    if (object?.spec.status !== 'creating') return;
    const { taskId: backupId, state, error, principal } = task;
    const actor: Actor = { id: principal.id, name: principal.name, action: 'tasks.run' };
    const fail = () =>
      this.#change(objectId, actor, { status: 'failed', reason: error?.message ?? `its task was ${state}` });
    try {
      const place = await this.#open(backupId, to);
      try {
        if (await hasManifest(place, backupId)) return await this.#record(objectId, backupId, place, actor);
        await place.clear(serverFolder(backupId));
      } finally {
        place.close();
      }
    } catch {
      // The place is out of reach: the files stay until the backup is deleted.
    }
    await fail();
  }

  /** What a crash kept from being settled. */
  async sweep(): Promise<void> {
    const { catalog, tasks } = this.#parts;
    for (let after: string | undefined; ; ) {
      const some = (await catalog.list(null, serverBackupsCategory, { after, limit: pageSize })) as ServerBackup[];
      for (const { id: objectId, name, spec, owner, createdBy } of some) {
        if (spec.status !== 'creating') continue;
        const task = await tasks.get(spec.backupId);
        if (task && task.endedAt === null) continue;
        const principal = { id: owner, name: createdBy };
        const request: ServerBackupRequest = { objectId, name, to: spec.to };
        await this.settle(task ?? { taskId: spec.backupId, state: 'failed', error: null, request, principal });
      }
      if (some.length < pageSize) return;
      after = some.at(-1)?.name;
    }
  }

  /** With its files, unless `keepFiles`. Throws CHANGE_IN_PROGRESS where it is still being made and does not stop in time. */
  async remove(object: ServerBackup, keepFiles: boolean, actor: Actor): Promise<boolean> {
    const { catalog, tasks, notes } = this.#parts;
    const { backupId, to, status } = object.spec;
    if (status === 'creating') {
      await tasks.cancel(backupId, { ...actor, guard: undefined });
      const task = await tasks.wait(backupId, stopWaitMs);
      if (task && task.endedAt === null)
        throw new Failure('CHANGE_IN_PROGRESS', 'the backup is being made, and its task has not stopped yet');
    }
    if (!keepFiles) {
      // The state that the request has to find is checked with this change, and is another one after it.
      const principal = { ...systemActor, action: deleteBegun, basis: actor.basis };
      await catalog.update(object, { spec: { ...object.spec, status: 'deleting' }, principal });
      actor.basis = undefined;
      const place = await this.#open(backupId, to);
      try {
        await place.remove(serverManifestPath(backupId));
        await place.clear(serverFolder(backupId));
      } finally {
        place.close();
      }
    }
    return catalog.retrying(async () => {
      const now = await catalog.byId(object.id);
      if (!now) return false;
      const also = (tx: Parameters<TargetSecrets['remove']>[1]) => notes.remove(backupId, tx);
      return catalog.drop(now, { principal: actor, cascade: true, childCategories: [], inTransaction: also });
    });
  }

  async #open(backupId: string, to: TargetRequest): Promise<BackupTarget> {
    const note = await this.#parts.notes.get(backupId);
    if (!note) throw new Failure('REMOTE_REFUSED', 'the credentials of the backup are no longer kept');
    return this.#parts.places.open(to, note.credentials, 'to');
  }
}

async function unlessAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  using _listening = addAbortListener(signal, () => aborted.reject(signal.reason));
  await Promise.race([work, aborted.promise]);
}

async function hasManifest(place: BackupTarget, backupId: string, signal?: AbortSignal): Promise<boolean> {
  for await (const { path } of place.list(serverFolder(backupId), signal))
    if (path === serverManifestPath(backupId)) return true;
  return false;
}

async function resultOf(place: BackupTarget, backupId: string): Promise<object> {
  const manifest = await serverManifestAt(place, backupId);
  const { takenAt, secretKey, catalogsLeftOut } = manifest;
  return { backupId, takenAt, ...serverTotals(manifest), catalogsLeftOut, secretKey };
}
