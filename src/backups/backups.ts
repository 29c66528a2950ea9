// Backups of catalogs and databases: requested here, and made by a task (jobs/back_up.ts). The files of a backup are in a folder of its
// own, and the manifest is written last. Unchanged data refers to files of earlier backups. A folder without a manifest is not a backup
// and is removed.

import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Trail } from '../access/audit/audit_log.ts';
import type { Authorizer } from '../access/authorization/authorizer.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { TaskResultOf } from '../api/tasks/task_types.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { Snapshot } from '../engines/port/snapshot.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import { dayMs } from '../model/durations.ts';
import { newId } from '../model/ids.ts';
import type { Actor, Principal } from '../model/principal.ts';
import type { TableSpec } from '../model/records.ts';
import type { ObjectStoreCredentials } from '../outbound/object_store.ts';
import { codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import {
  actorOfTask,
  HandedBack,
  RetryableError,
  type TaskContext,
  type TaskRecord,
  type TaskRequest,
} from '../tasks/task.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { consistentSnapshot, readDefinitions, type SourceDefinitions } from './definitions.ts';
import { takeSnapshot } from './held_snapshots.ts';
import {
  type BackedUpPart,
  backupFolder,
  backupIdOfFile,
  computeTotals,
  filePath,
  formatVersion,
  listParts,
  type Manifest,
  manifestPath,
  manifestText,
  type TableBody,
} from './manifest.ts';
import type { MetadataCategory } from './metadata_objects.ts';
import {
  type BackupTarget,
  listBackupIds,
  listFiles,
  loadManifest,
  manifestsReadMax,
  type TargetFile,
} from './targets/backup_target.ts';
import type { BackupTargets, TargetRequest } from './targets/backup_targets.ts';
import { heldTarget } from './targets/held_target.ts';
import { PartUploader, type TableToUpload } from './targets/part_uploader.ts';
import type { TargetSecrets } from './targets/target_secrets.ts';

export const backupTask = 'backup';
declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly backup: BackupRequest;
  }
}

/** How long cleanup is retried if the target does not answer. */
const clearRetryMsMax = dayMs;

/** The request of the task; credentials are stored as a secret. */
export interface BackupRequest {
  /** Id of the catalog or the database, which may have been renamed since. */
  readonly objectId: string;
  readonly to: TargetRequest;
}

type Result = TaskResultOf<typeof backupTask>;
type Run = Pick<TaskContext, 'signal' | 'progress' | 'requireHeld'>;

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly authorizer: Authorizer;
  readonly directory: Directory;
  readonly trail: Trail;
  readonly store: Store;
  readonly holder: LeaseHolder;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'get'>;
  readonly secrets: TargetSecrets;
  readonly targets: BackupTargets;
  readonly spoolDirectory: string;
  readonly release: string;
  readonly metadataCategories: readonly MetadataCategory[];
  /** Converts a definition to the body of a request that creates the table. */
  readonly bodyOf: (spec: TableSpec) => TableBody;
}

export class Backups {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Stores the task, its audit record and its credentials in one transaction. Throws what can be checked before the task runs. */
  async submit(
    metadataOf: Omit<TaskRequest<typeof backupTask>, 'type'>,
    actor: Actor,
    credentials: ObjectStoreCredentials | undefined,
  ): Promise<TaskRecord<typeof backupTask>> {
    const { store, tasks, secrets, targets, trail } = this.#parts;
    await targets.check(metadataOf.request.to, 'to');
    const { objectId } = metadataOf.request;
    const task = await store.transaction(async (tx) => {
      const submitted = await tasks.submit({ ...metadataOf, type: backupTask }, tx);
      await secrets.put(submitted.taskId, { credentials }, tx);
      await trail.append(tx, actor, { outcome: '0', objectId, details: { taskId: submitted.taskId } });
      return submitted;
    });
    tasks.notify();
    return task;
  }

  async run(task: TaskRecord<'backup'>, context: Run): Promise<Result> {
    const { taskId, principal } = task;
    const { objectId, to } = task.request;
    const definitions = await this.#authorize(objectId, principal);
    const actor = actorOfTask(task);
    const { signal, requireHeld } = context;
    const target = heldTarget(await this.#open(taskId, to), () => requireHeld(this.#parts.store.db));
    const details = { taskId, kind: 'backup' };
    try {
      const files = await listFiles(target, signal);
      // A previous attempt completed the backup, but the process died before it recorded that.
      if (files.has(manifestPath(taskId))) return resultOf((await loadManifest(target, taskId, signal)).manifest);
      await this.#parts.trail.begin(actor, { objectId, details });
      const { warehouse } = definitions.root.spec;
      const result = await this.#parts.warehouses.admit(
        warehouse,
        { principal, signal, isTask: true },
        async (engine) => {
          await this.#authorize(objectId, principal);
          return this.#takeBackup(engine, { taskId, objectId, warehouse, target, files }, context);
        },
      );
      this.#parts.trail.enqueue(actor, { outcome: '0', objectId, details });
      return result;
    } catch (error) {
      const fault = signal.aborted ? 'STATEMENT_CANCELLED' : 'INTERNAL_ERROR';
      const outcome = error instanceof Failure ? error.code : fault;
      this.#parts.trail.enqueue(actor, { outcome, objectId, details });
      const isRetryable = error instanceof Failure ? codes[error.code].status >= 500 : !signal.aborted;
      const isHandedBack = signal.reason instanceof HandedBack;
      if (!isRetryable && !isHandedBack) await clearUnfinished(target, taskId).catch(() => undefined);
      throw retryable(error);
    } finally {
      target.close();
    }
  }

  /** Rights are checked again, because the task may have waited. */
  async #authorize(objectId: string, principal: Principal): Promise<SourceDefinitions> {
    const { catalog, authorizer, directory, metadataCategories } = this.#parts;
    directory.requireActive(principal);
    const definitions = await readDefinitions(catalog, objectId, metadataCategories);
    const { root, source } = definitions;
    if (!authorizer.isAllowedOn(principal, 'read', 'catalogs', root === source ? [root] : [root, source]))
      throw new Failure('FORBIDDEN', 'the submitter may no longer read the object to back up');
    await authorizer.requireUse(principal, root.spec.warehouse);
    return definitions;
  }

  async #takeBackup(
    engine: EngineWarehouse,
    options: {
      readonly taskId: string;
      readonly objectId: string;
      readonly warehouse: string;
      readonly target: BackupTarget;
      readonly files: ReadonlyMap<string, TargetFile>;
    },
    { signal, progress }: Run,
  ): Promise<Result> {
    const { taskId: backupId, objectId, warehouse, target, files } = options;
    const base = await findLatest(objectId, target, files, signal);
    const staging = join(this.#parts.spoolDirectory, 'backups', newId());
    await mkdir(staging, { recursive: true, mode: 0o700 });
    const { catalog, metadataCategories } = this.#parts;
    const take = async (definitions: SourceDefinitions) => {
      if (definitions.root.spec.warehouse !== warehouse)
        throw new RetryableError('the catalog was moved to another warehouse while its backup waited');
      return takeSnapshot(this.#parts, { engine, definitions, taskId: backupId, signal });
    };
    const consistent = await consistentSnapshot(catalog, objectId, metadataCategories, take, signal).catch(
      async (error) => {
        await rm(staging, { recursive: true, force: true });
        throw error;
      },
    );
    const { definitions, snapshot, takenAt } = consistent;
    try {
      const tables = await this.#tables(definitions, snapshot, signal);
      const { release, warehouses } = this.#parts;
      const { name } = await warehouses.engineOf(warehouse);
      const head = { backupId, takenAt, release, engine: name };
      // Refused before anything is sent if the manifest would be too large.
      manifestText(manifestOf(head, definitions, tables, expectedParts(backupId, tables)));
      const sender = new PartUploader({ target, backupId, staging, snapshot, signal, progress }, base, files);
      const sent = await sender.send(tables);
      const manifest = manifestOf(head, definitions, tables, sent);
      await settleFiles(target, manifest, signal);
      await target.writeSmall(manifestPath(backupId), manifestText(manifest), signal);
      const { filesSent, bytesSent } = sender;
      return { ...resultOf(manifest), filesSent, bytesSent, since: base?.backupId ?? null };
    } finally {
      await snapshot.close();
      await rm(staging, { recursive: true, force: true });
    }
  }

  async #tables({ databases }: SourceDefinitions, snapshot: Snapshot, signal: AbortSignal): Promise<TableToUpload[]> {
    const all: TableToUpload[] = [];
    for (const { object, tables } of databases)
      for (const { id, name, spec } of tables) {
        const ref = { database: object.name, table: name, columns: spec.columns };
        all.push({ id, ref, body: this.#parts.bodyOf(spec), parts: await snapshot.parts(ref, signal) });
      }
    return all;
  }

  /** Called when a task has ended: removes its files unless it succeeded, and deletes its credentials. Idempotent. */
  async settle(task: TaskRecord<'backup'>): Promise<void> {
    const { secrets } = this.#parts;
    const { taskId, startedAt, state, endedAt } = task;
    if ((await secrets.get(taskId)) === undefined) return;
    // Its server may have died while it held the writes.
    await this.#parts.catalog.endSnapshotHold(taskId, false);
    if (startedAt !== null && state !== 'succeeded') {
      const isLate = endedAt !== null && Date.now() - Date.parse(endedAt) > clearRetryMsMax;
      try {
        const target = await this.#open(taskId, task.request.to);
        await clearUnfinished(target, taskId).finally(() => target.close());
      } catch (error) {
        // A permanent refusal, or failures for a day: another attempt would not help.
        if (!isLate && !(error instanceof Failure && codes[error.code].status < 500)) throw error;
      }
    }
    await secrets.remove(taskId);
  }

  /** Settles the tasks that a crash left unsettled. */
  async sweep(): Promise<void> {
    const { secrets, tasks } = this.#parts;
    for (const taskId of await secrets.taskIds()) {
      const task = await tasks.get(taskId);
      if (task?.type !== backupTask) await secrets.remove(taskId);
      else if (task.endedAt !== null) await this.settle(task).catch(() => undefined);
    }
  }

  async #open(taskId: string, to: TargetRequest): Promise<BackupTarget> {
    const note = await this.#parts.secrets.get(taskId);
    if (!note) throw new Failure('REMOTE_REFUSED', 'the credentials of the backup were deleted');
    return this.#parts.targets.open(to, note.credentials, 'to');
  }
}

/** A concurrent change is retried: the next attempt reads the definitions again. */
function retryable(error: unknown): unknown {
  if (error instanceof Failure && error.code !== 'CHANGE_IN_PROGRESS') return error;
  return error instanceof RetryableError ? error : new RetryableError('the backup was interrupted', { cause: error });
}

/** The parts of the manifest as they will be, but for digests and sizes of files, of which these are the longest. */
function expectedParts(backupId: string, tables: readonly TableToUpload[]): Map<string, BackedUpPart[]> {
  const sha256 = '0'.repeat(64);
  const file = { sha256, bytes: Number.MAX_SAFE_INTEGER, path: filePath(backupId, sha256) };
  return new Map(tables.map(({ id, parts }) => [id, parts.map((part) => ({ ...part, ...file }))]));
}

/** The latest readable backup of the object. */
async function findLatest(
  objectId: string,
  target: BackupTarget,
  files: ReadonlyMap<string, TargetFile>,
  signal: AbortSignal,
): Promise<Manifest | undefined> {
  for (const id of listBackupIds(files).slice(0, manifestsReadMax)) {
    try {
      const { manifest } = await loadManifest(target, id, signal);
      if (manifest.of.id === objectId) return manifest;
    } catch (error) {
      // A damaged backup cannot serve as a base.
      if (!(error instanceof Failure && error.code === 'DATA_INVALID')) throw error;
    }
  }
  return undefined;
}

function manifestOf(
  head: Pick<Manifest, 'backupId' | 'takenAt' | 'release' | 'engine'>,
  { root, source, databases }: SourceDefinitions,

  uploaded: readonly TableToUpload[],
  sent: ReadonlyMap<string, BackedUpPart[]>,
): Manifest {
  const metadataOf = ({
    comment,
    properties,
  }: {
    comment?: string;
    properties?: Readonly<Record<string, string>>;
  }) => ({
    ...(comment === undefined ? {} : { comment }),
    ...(properties === undefined ? {} : { properties: { ...properties } }),
  });
  const bodies = new Map(uploaded.map(({ id, body }) => [id, body]));
  const category = source === root ? ('catalogs' as const) : ('databases' as const);
  return {
    formatVersion,
    ...head,
    of: { category, id: source.id, name: source.name, catalog: root.name, ...metadataOf(source.spec) },
    databases: databases.map(({ object, tables, views, objects }) => ({
      id: object.id,
      name: object.name,
      ...metadataOf(object.spec),
      tables: tables.map(({ id, name }) => {
        const parts = sent.get(id) ?? [];
        const rows = parts.reduce((sum, part) => sum + part.rows, 0);
        return { id, name, definition: bodies.get(id) as TableBody, rows, parts };
      }),
      views: views.map(({ id, name, spec }) => ({ id, name, ...metadataOf(spec), sql: spec.sql })),
      objects: objects.map(({ category, id, name, spec }) => ({ category, id, name, spec })),
    })),
  };
}

/**
 * Checks that all files of the manifest exist and removes other files from the folder. Throws RetryableError if a file disappeared
 * meanwhile.
 */
async function settleFiles(target: BackupTarget, manifest: Manifest, signal: AbortSignal): Promise<void> {
  const named = new Map([...listParts(manifest)].map(({ part }) => [part.path, part.bytes]));
  const folders = new Set([...named.keys()].map((path) => backupFolder(backupIdOfFile(path) as string)));
  folders.add(backupFolder(manifest.backupId));
  const found = new Map<string, number>();
  for (const folder of folders)
    for await (const { path, bytes } of target.list(folder, signal)) {
      found.set(path, bytes);
      const isLeft = folder === backupFolder(manifest.backupId) && !named.has(path);
      if (isLeft && path !== manifestPath(manifest.backupId)) await target.remove(path);
    }
  for (const [path, bytes] of named)
    if (found.get(path) !== bytes)
      throw new RetryableError('a file of an earlier backup was removed during the backup');
}

/**
 * Removes an unfinished backup. A backup with a manifest stays, whatever the state of its task, because others may refer to its files.
 */
async function clearUnfinished(target: BackupTarget, backupId: string): Promise<void> {
  for await (const { path } of target.list(backupFolder(backupId))) if (path === manifestPath(backupId)) return;
  await target.clear(backupFolder(backupId), manifestPath(backupId));
}

const resultOf = (manifest: Manifest) => {
  const { backupId, takenAt } = manifest;
  return { backupId, takenAt, ...computeTotals(manifest) };
};
