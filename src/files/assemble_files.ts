// Makes the store of files from what main has: where it is, whose links are good, and the sweep that runs by itself.
import { join } from 'node:path';
import type { AssembledAccess } from '../access/assemble_access.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { Observe } from '../observe/observations.ts';
import type { Store } from '../store/store.ts';
import { FileStore, type FileStoreOptions } from './file_store.ts';

const sweepEveryMs = 3_600_000;

export interface FilesOptions {
  readonly store: Store;
  readonly secrets: Pick<Secrets, 'derive'>;
  readonly dataDirectory: string;
  readonly settings: FileStoreOptions['limits'];
}

export function assembleFiles(
  ground: FilesOptions,
  { audit, directory }: Pick<AssembledAccess, 'audit' | 'directory'>,
  mayReadResult: (taskId: string) => Promise<boolean>,
): FileStore {
  return new FileStore({
    store: ground.store,
    directory: join(ground.dataDirectory, 'files'),
    linkKey: ground.secrets.derive('file links'),
    limits: ground.settings,
    trail: audit,
    isLinkAllowed: ({ owner, kind, taskId }) =>
      directory.isActive({ id: owner, name: '' }) && (kind !== 'export' || (taskId !== null && mayReadResult(taskId))),
  });
}

/** The answer stops it, and waits for what is being written; who sends that must have been cut off. */
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
