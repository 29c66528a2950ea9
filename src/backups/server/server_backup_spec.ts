// What the record of a backup of the server stores.
import type { TargetRequest } from '../targets/backup_targets.ts';
import type { CatalogLeftOut } from './server_manifest.ts';

/** The record. `creating` until the task has ended; `deleting` once files may be gone. */
export interface ServerBackupSpec {
  /** Also the id of the task. */
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
