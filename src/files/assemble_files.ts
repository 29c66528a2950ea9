// Creates the file store: where content is stored, which links are allowed, and its periodic sweep.
import type { AuditTrail } from '../access/audit/audit_log.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { Observe } from '../observe/observations.ts';
import type { LeaseHolder } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { BlobPlaces } from './blobs/blob_places.ts';
import { FileStore, type FileStoreOptions } from './file_store.ts';

const sweepEveryMs = 3_600_000;

export interface FilesOptions {
  readonly store: Store;
  readonly secrets: Pick<Secrets, 'derive'>;
  readonly fileBlobs: BlobPlaces;
  readonly settings: FileStoreOptions['limits'];
  readonly audit: AuditTrail;
  readonly directory: Directory;
  readonly holder: LeaseHolder;
  readonly disk: { requireRoom(): void };
  /** Whether the result of the task still exists and its submitter may read it. */
  readonly mayReadResult: (taskId: string) => Promise<boolean>;
}

export function assembleFiles(options: FilesOptions): FileStore {
  const { directory, mayReadResult } = options;
  return new FileStore({
    store: options.store,
    blobs: options.fileBlobs,
    linkKey: options.secrets.derive('file links'),
    limits: options.settings,
    trail: options.audit,
    holder: options.holder,
    requireRoom: () => options.disk.requireRoom(),
    isLinkAllowed: ({ owner, kind, taskId }) =>
      directory.isActive({ id: owner, name: '' }) && (kind !== 'export' || (taskId !== null && mayReadResult(taskId))),
  });
}

/** Returns a function that stops the sweep and waits for uploads that are being written, whose connections must be closed. */
export async function startFiles(files: FileStore, observe: Observe): Promise<() => Promise<void>> {
  await files.start();
  const sweep = () =>
    void files.sweep().catch((error: unknown) => observe({ kind: 'backgroundError', what: 'sweep of files', error }));
  const timer = setInterval(sweep, sweepEveryMs).unref();
  return async () => {
    clearInterval(timer);
    await files.stop();
  };
}
