// The backup targets that are recorded in the metadata store, for a command that restores a catalog from one of them while no
// server runs.
import { stat } from 'node:fs/promises';
import { HostAllowlist } from '../outbound/host_allowlist.ts';
import { type ObjectStoreCredentials, openObjectStore } from '../outbound/object_store.ts';
import { Failure } from '../standard/failure.ts';
import type { Store } from '../store/store.ts';
import { type BackupRequest, backupTask } from './backups.ts';
import type { ServerBackupSpec } from './server/server_backup_spec.ts';
import { serverBackupsCategory } from './server/server_backups.ts';
import type { BackupTarget } from './targets/backup_target.ts';
import type { TargetRequest } from './targets/backup_targets.ts';
import { DirectoryTarget } from './targets/directory_target.ts';
import { ObjectStoreTarget } from './targets/object_store_target.ts';

export interface RecordedTarget {
  readonly to: TargetRequest;
  /** A server backup in this target: its id identifies the stored credentials. */
  readonly backupId?: string | undefined;
}

/**
 * The targets with backups of the server, and the directories with backups of the catalog as long as their tasks are retained.
 * Object stores with backups of the catalog are not included: their credentials are deleted when the backup has ended.
 */
export async function listRecordedTargets(store: Store, catalogId: string): Promise<RecordedTarget[]> {
  const targets = new Map<string, RecordedTarget>();
  for (const to of await catalogBackupTargets(store, catalogId))
    if (to.kind === 'directory') targets.set(JSON.stringify(to), { to });
  for (const target of await serverBackupTargets(store)) targets.set(JSON.stringify(target.to), target);
  return [...targets.values()];
}

/** The newest backup comes last. */
async function serverBackupTargets({ db }: Store): Promise<RecordedTarget[]> {
  const rows = await db.selectFrom('objects').select('spec').where('category', '=', serverBackupsCategory).execute();
  const ready = rows.map(({ spec }) => JSON.parse(spec) as ServerBackupSpec).filter(({ status }) => status === 'ready');
  return ready.sort((a, b) => (a.backupId < b.backupId ? -1 : 1)).map(({ to, backupId }) => ({ to, backupId }));
}

async function catalogBackupTargets({ db }: Store, catalogId: string): Promise<TargetRequest[]> {
  const rows = await db
    .selectFrom('tasks')
    .select('request')
    .where('type', '=', backupTask)
    .where('state', '=', 'succeeded')
    .execute();
  return rows
    .map(({ request }) => JSON.parse(request) as BackupRequest)
    .filter(({ objectId }) => objectId === catalogId)
    .map(({ to }) => to);
}

/** Opens a recorded target for an operator, without restrictions on directories and hosts. The caller must close it. Throws a Failure. */
export async function openRecordedTarget(
  to: TargetRequest,
  credentials: ObjectStoreCredentials | undefined,
): Promise<BackupTarget> {
  if (to.kind === 'directory') {
    const found = await stat(to.path).catch(() => undefined);
    if (!found?.isDirectory()) throw new Failure('REMOTE_REFUSED', 'the directory does not exist');
    return new DirectoryTarget(to.path);
  }
  const hosts = new HostAllowlist([new URL(to.endpoint).host]);
  return new ObjectStoreTarget(await openObjectStore(to, credentials, hosts), to.prefix);
}
