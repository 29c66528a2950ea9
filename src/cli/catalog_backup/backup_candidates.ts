// The backups from which a damaged catalog may be restored: those of the whole server and those of catalogs, in all recorded
// targets or in a given one. server_backup.ts and parquet_backup.ts decide whether a backup can be used.
import { listRecordedTargets, openRecordedTarget } from '../../backups/recorded_targets.ts';
import { serverBackupSecretPrefix } from '../../backups/server/server_backups.ts';
import { listServerBackups } from '../../backups/server/server_manifest.ts';
import { type BackupTarget, listBackupIds, listFiles } from '../../backups/targets/backup_target.ts';
import type { TargetRequest } from '../../backups/targets/backup_targets.ts';
import { TargetSecrets } from '../../backups/targets/target_secrets.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import type { Store } from '../../store/store.ts';
import { type BackupLocation, openBackupTarget, parseBackupLocation } from '../backup_location.ts';
import type { CatalogName, CatalogsToCheck } from '../check/catalog_checks.ts';
import { secretsOf } from '../data_directory.ts';

export interface OpenTarget {
  readonly target: BackupTarget;
  /** In the form of a request body. */
  readonly named: BackupLocation;
  /** For messages. */
  readonly where: string;
}

export interface Candidate extends OpenTarget {
  readonly kind: 'server' | 'catalog';
  readonly backupId: string;
}

/** A backup of the catalog that has been fetched and read without a fault. */
export interface FoundBackup {
  readonly kind: Candidate['kind'];
  readonly backupId: string;
  readonly takenAt: string;
  /** Has the layout of a data directory. */
  readonly directory: string;
  /** A metadata store that describes the catalog at the time of the backup. */
  readonly older: Store;
  readonly identity: string | undefined;
  /** The objects of the backup that could not be restored. */
  readonly omitted: readonly string[];
}

/** The files and the store of a candidate cannot be used. */
export const unusable = (why: string) => new Failure('DATA_INVALID', why);

/** A Failure of the target or of the backup is returned, so that another backup can be tried. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | Failure> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Failure && error.code !== 'STORAGE_FULL') return error;
    throw error;
  }
}

/** Newest first. */
export async function candidatesIn(
  targets: readonly OpenTarget[],
  { say, settings: { backupId: wanted } }: CatalogsToCheck,
): Promise<Candidate[]> {
  const candidates: Candidate[] = [];
  for (const open of targets) {
    const listed = await attempt(async () => [
      ...(await listServerBackups(open.target)).whole.map((backupId) => ({ kind: 'server' as const, backupId })),
      ...listBackupIds(await listFiles(open.target)).map((backupId) => ({ kind: 'catalog' as const, backupId })),
    ]);
    if (listed instanceof Failure) say(`  the backups in ${open.where} cannot be listed: ${listed.message}`);
    else candidates.push(...listed.map((backup) => ({ ...open, ...backup })));
  }
  // Ids are ordered by time.
  candidates.sort((a, b) => (a.backupId < b.backupId ? 1 : -1));
  return candidates.filter(({ backupId }) => wanted === '' || backupId === wanted);
}

/** The caller must close it. */
export async function openTargets(
  { store, settings, dataDirectory, say }: CatalogsToCheck,
  { id }: CatalogName,
): Promise<OpenTarget[]> {
  const { backupPlace } = settings;
  if (backupPlace !== '')
    return [
      {
        target: await openBackupTarget(backupPlace, settings),
        named: parseBackupLocation(backupPlace, settings),
        where: backupPlace,
      },
    ];
  const opened: OpenTarget[] = [];
  const notes = new TargetSecrets(store, await secretsOf(settings, store, dataDirectory), serverBackupSecretPrefix);
  for (const { to, backupId } of await listRecordedTargets(store, id)) {
    const where = to.kind === 's3' ? `s3://${to.bucket}/${to.prefix}` : to.path;
    const credentials = backupId === undefined ? undefined : (await notes.get(backupId))?.credentials;
    const target = await attempt(() => openRecordedTarget(to, credentials));
    if (target instanceof Failure) say(`  ${where} cannot be used: ${target.message}`);
    else opened.push({ target, named: namedAs(to, credentials), where });
  }
  return opened;
}

function namedAs(to: TargetRequest, credentials: ObjectStoreCredentials | undefined): BackupLocation {
  if (to.kind === 'directory') return { path: to.path };
  const { kind: _, ...location } = to;
  const { accessKeyId = '', secretAccessKey = '', sessionToken } = credentials ?? {};
  return { s3: { ...location, accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) } };
}
