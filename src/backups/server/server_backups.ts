// Backups of the whole server: requested here, made by a task (jobs/back_up_server.ts), recorded as objects of their own category, and
// deleted with their files. See server_copy.ts and server_snapshot.ts for the content and its consistency.
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { Directory } from '../../access/authorization/directory.ts';
import type { TaskResultOf } from '../../api/tasks/task_types.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { unlessAborted } from '../../model/concurrency/bounded_waits.ts';
import { newId } from '../../model/ids.ts';
import { type Actor, type Principal, systemActor } from '../../model/principal.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { actorOfTask, RetryableError, type TaskContext, type TaskRecord, type TaskRequest } from '../../tasks/task.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import type { BackupTarget } from '../targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from '../targets/backup_targets.ts';
import type { TargetSecrets } from '../targets/target_secrets.ts';
import type { ServerBackupSpec } from './server_backup_spec.ts';
import { type CopiedServer, copyServer } from './server_copy.ts';
import { loadServerManifest, serverFolder, serverManifestPath, serverTotals } from './server_manifest.ts';
import { type SnapshotParts, serverSnapshot } from './server_snapshot.ts';

export const serverBackupTask = 'server_backup';
export const serverBackupsCategory = 'server_backups';
declare module '../../tasks/task.ts' {
  interface StoredRequests {
    readonly server_backup: ServerBackupRequest;
  }
}

/** Prefix of the names of its secrets. */
export const serverBackupSecretPrefix = 'server backup ';
const pageSize = 1000;
/** Action of the audit records of changes that the server makes itself. */
const deleteBegun = 'server_backups.begin_delete';
/** How long a deletion waits for the task that makes the backup to stop. */
const stopWaitMs = 10_000;

/** The request of the task; credentials are stored as a secret. */
export interface ServerBackupRequest {
  /** Id of the record. */
  readonly objectId: string;
  readonly name: string;
  readonly to: TargetRequest;
}

export type ServerBackup = CatalogObject<ServerBackupSpec>;

type Result = TaskResultOf<typeof serverBackupTask>;

interface Parts extends CopiedServer, SnapshotParts {
  readonly catalog: Catalog;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get' | 'cancel' | 'wait'>;
  /** By backup id; they stay as long as the record, so that the files can be deleted. */
  readonly secrets: TargetSecrets;
  readonly targets: BackupTargets;
}

export interface ServerBackupSubmission {
  /** Default: the id of the backup. */
  readonly name: string | undefined;
  readonly to: TargetRequest;
  readonly credentials: ObjectStoreCredentials | undefined;
  readonly ifExists: 'fail' | 'return';
  readonly task: (name: string) => Omit<TaskRequest, 'type' | 'request' | 'taskId'>;
}

export class ServerBackups {
  readonly #parts: Parts;
  /** Resolves when all backups that were started have ended: the store can be pinned for one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Creates the record and its task in one transaction. `taskId` is absent if the record exists and `ifExists` is `return`. */
  async submit(
    { name, to, credentials, ifExists, task }: ServerBackupSubmission,
    actor: Actor,
  ): Promise<{ readonly object: ServerBackup; readonly taskId?: string }> {
    const { catalog, tasks, secrets, targets } = this.#parts;
    this.#requireFile();
    this.#requirePassphrase(to);
    await targets.check(to, 'to');
    const backupId = newId();
    const backupName = name ?? backupId;
    // A repeated request is answered with the task, because submitting the task marks the idempotency key.
    const creator: Actor = { ...actor, guard: undefined };
    const spec: ServerBackupSpec = { backupId, to, status: 'creating' };
    const { object, created } = await catalog.create<ServerBackupSpec>({
      parent: null,
      category: serverBackupsCategory,
      name: backupName,
      spec,
      principal: creator,
      ifExists,
      inTransaction: async (tx, objectId) => {
        actor.writing = true;
        const request: ServerBackupRequest = { objectId, name: backupName, to };
        await secrets.put(backupId, { credentials }, tx);
        await tasks.submit({ ...task(backupName), taskId: backupId, type: serverBackupTask, request }, tx);
      },
    });
    if (!created) return { object };
    actor.audited = true;
    actor.changed = true;
    tasks.notify();
    return { object, taskId: backupId };
  }

  async run(task: TaskRecord<'server_backup'>, context: Pick<TaskContext, 'signal' | 'progress'>): Promise<Result> {
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
    task: TaskRecord<'server_backup'>,
    { signal, progress }: Pick<TaskContext, 'signal' | 'progress'>,
  ): Promise<Result> {
    const { taskId: backupId } = task;
    const { objectId, to } = task.request;
    signal.throwIfAborted();
    await this.#authorize(task.principal);
    const actor = actorOfTask(task);
    const target = await this.#open(backupId, to);
    try {
      // A previous attempt completed the backup, but the process died before it recorded that.
      if (!(await hasManifest(target, backupId, signal))) {
        this.#requirePassphrase(to);
        const take = () => serverSnapshot(this.#parts, signal);
        const { heldMs } = await copyServer(this.#parts, take, { target, backupId, signal, progress });
        await this.#record(objectId, backupId, target, actor);
        return { ...(await resultOf(target, backupId)), heldMs };
      }
      await this.#record(objectId, backupId, target, actor);
      return await resultOf(target, backupId);
    } finally {
      target.close();
    }
  }

  /** Throws CHANGE_NOT_SUPPORTED. */
  #requireFile(): void {
    if (this.#parts.sqlite) return;
    const message =
      'the metadata store is PostgreSQL, which a backup of the server cannot contain: back up that database and each catalog';
    throw new Failure('CHANGE_NOT_SUPPORTED', message);
  }

  /**
   * Throws INVALID_PARAMETER if the keys would be stored in plain text in an object store. The passphrase may have changed by the time
   * the task runs.
   */
  #requirePassphrase(to: TargetRequest): void {
    if (to.kind !== 's3' || !this.#parts.sealer.isPlain) return;
    const message =
      'is not accepted by a server without a passphrase: its keys would be stored unencrypted in the object store. Start it with TABULARIUM_BACKUP_PASSPHRASE.';
    throw invalidParameter('/to/s3', 'passphrase', message);
  }

  /** Rights are checked again, because the task may have waited. Throws FORBIDDEN. */
  async #authorize(principal: Principal): Promise<void> {
    const { directory, authorizer } = this.#parts;
    directory.requireActive(principal);
    await authorizer.require(principal, 'own', { category: serverBackupsCategory, path: [] });
  }

  async #record(objectId: string, backupId: string, target: BackupTarget, actor: Actor): Promise<void> {
    const manifest = await loadServerManifest(target, backupId);
    const { takenAt, release, catalogs, catalogsLeftOut } = manifest;
    const { bytes } = serverTotals(manifest);
    await this.#change(objectId, actor, { status: 'ready', takenAt, bytes, release, catalogs, catalogsLeftOut });
  }

  /** Changes the record only while it is `creating`, so that a deletion in progress is not overwritten. */
  async #change(objectId: string, actor: Actor, change: Partial<ServerBackupSpec>): Promise<void> {
    const { catalog } = this.#parts;
    await catalog.retrying(async () => {
      const object = (await catalog.byId(objectId)) as ServerBackup | undefined;
      if (object?.spec.status === 'creating')
        await catalog.update(object, { spec: { ...object.spec, ...change }, principal: actor });
    });
  }

  /** Called when the task of a backup has ended: removes its files unless it has a manifest. Idempotent. */
  async settle(
    task: Pick<TaskRecord<'server_backup'>, 'taskId' | 'state' | 'error' | 'request' | 'principal'>,
  ): Promise<void> {
    const { objectId, to } = task.request;
    const object = (await this.#parts.catalog.byId(objectId)) as ServerBackup | undefined;
    if (object?.spec.status !== 'creating') return;
    const { taskId: backupId, state, error, principal } = task;
    const actor: Actor = { id: principal.id, name: principal.name, action: 'tasks.run' };
    const fail = () =>
      this.#change(objectId, actor, { status: 'failed', reason: error?.message ?? `its task was ${state}` });
    try {
      const target = await this.#open(backupId, to);
      try {
        if (await hasManifest(target, backupId)) return await this.#record(objectId, backupId, target, actor);
        await target.clear(serverFolder(backupId), serverManifestPath(backupId));
      } finally {
        target.close();
      }
    } catch {
      // The target is unavailable: the files stay until the backup is deleted.
    }
    await fail();
  }

  /** Settles the tasks that a crash left unsettled. */
  async sweep(): Promise<void> {
    const { catalog, tasks } = this.#parts;
    for (let after: string | undefined; ; ) {
      const page = (await catalog.list(null, serverBackupsCategory, { after, limit: pageSize })) as ServerBackup[];
      for (const { id: objectId, name, spec, owner, createdBy } of page) {
        if (spec.status !== 'creating') continue;
        const task = await tasks.get(spec.backupId);
        if (task && task.endedAt === null) continue;
        const principal = { id: owner, name: createdBy };
        const request: ServerBackupRequest = { objectId, name, to: spec.to };
        await this.settle(
          task?.type === serverBackupTask
            ? task
            : { taskId: spec.backupId, state: 'failed', error: null, request, principal },
        );
      }
      if (page.length < pageSize) return;
      after = page.at(-1)?.name;
    }
  }

  /**
   * Deletes the backup with its files, unless `keepFiles`. Throws CHANGE_IN_PROGRESS if it is still being made and does not stop in time.
   */
  async remove(object: ServerBackup, keepFiles: boolean, actor: Actor): Promise<boolean> {
    const { catalog, tasks, secrets } = this.#parts;
    const { backupId, to, status } = object.spec;
    if (status === 'creating') {
      await tasks.cancel(backupId, { ...actor, guard: undefined });
      actor.changed = true;
      const task = await tasks.wait(backupId, stopWaitMs);
      if (task && task.endedAt === null)
        throw new Failure(
          'CHANGE_IN_PROGRESS',
          'the backup is still running: cancel its task, and retry when it has stopped',
        );
    }
    if (!keepFiles) {
      // The precondition of the request is checked with this change, which alters the state.
      const principal = { ...systemActor, action: deleteBegun, expectedVersion: actor.expectedVersion };
      await catalog.update(object, { spec: { ...object.spec, status: 'deleting' }, principal });
      actor.changed = true;
      actor.expectedVersion = undefined;
      const target = await this.#open(backupId, to);
      try {
        await target.remove(serverManifestPath(backupId));
        await target.clear(serverFolder(backupId));
      } finally {
        target.close();
      }
    }
    const now = await catalog.byId(object.id);
    if (!now) return false;
    const inTransaction = (tx: Parameters<TargetSecrets['remove']>[1]) => secrets.remove(backupId, tx);
    return catalog.drop(now, { principal: actor, cascade: true, inTransaction });
  }

  async #open(backupId: string, to: TargetRequest): Promise<BackupTarget> {
    const note = await this.#parts.secrets.get(backupId);
    if (!note) throw new Failure('REMOTE_REFUSED', 'the credentials of the backup were deleted');
    return this.#parts.targets.open(to, note.credentials, 'to');
  }
}

async function hasManifest(target: BackupTarget, backupId: string, signal?: AbortSignal): Promise<boolean> {
  for await (const { path } of target.list(serverFolder(backupId), signal))
    if (path === serverManifestPath(backupId)) return true;
  return false;
}

async function resultOf(target: BackupTarget, backupId: string): Promise<Result> {
  const manifest = await loadServerManifest(target, backupId);
  const { takenAt, secretKey, catalogsLeftOut } = manifest;
  return { backupId, takenAt, ...serverTotals(manifest), catalogsLeftOut, secretKey };
}
