// The quota of the files of one owner. A file counts with its reserved bytes: the announced size, or the bytes received and about to be
// received.
import type { Kysely, Selectable } from 'kysely';
import { Failure, objectNotFound } from '../standard/failure.ts';
import type { FilesTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export interface FileQuota {
  /** For all files of an owner together; 0: no limit. */
  readonly bytesMax: number;
  readonly uploadBytesMax: number;
}

/** Limits the number too, because small files have a cost. */
const filesPerOwnerMax = 10_000;
/** Reserved at a time for a file of unknown size. */
const reserveBytes = 64 * 1024 * 1024;

/** Call it in the transaction that adds the file. Throws FILE_QUOTA_EXCEEDED, BODY_TOO_LARGE. */
export async function requireFileQuota(
  db: Kysely<Schema>,
  row: Selectable<FilesTable>,
  quota: FileQuota,
): Promise<void> {
  const { uploadBytesMax } = quota;
  if (row.kind === 'upload' && row.reserved_bytes > uploadBytesMax)
    throw new Failure('BODY_TOO_LARGE', `an upload can have at most ${uploadBytesMax} bytes`, {
      bytesMax: uploadBytesMax,
    });
  const { files, bytes } = await usage(db, row);
  if (files >= filesPerOwnerMax) throw tooMany();
  if (row.reserved_bytes > room(quota, bytes)) throw exceeded(quota, bytes);
}

/** How many bytes an owner may add. Throws FILE_QUOTA_EXCEEDED if none. */
export async function remainingBytes(db: Kysely<Schema>, owner: string, quota: FileQuota): Promise<number> {
  const { files, bytes } = await usage(db, { owner, file_id: '' });
  if (files >= filesPerOwnerMax) throw tooMany();
  const remaining = room(quota, bytes);
  if (remaining <= 0) throw exceeded(quota, bytes);
  return remaining;
}

/** Reserves at least `bytes` in total for the file, and returns how many are reserved. Throws FILE_QUOTA_EXCEEDED. */
export function reserveFor(store: Store, fileId: string, bytes: number, quota: FileQuota): Promise<number> {
  return store.transaction(async (tx) => {
    const row = await tx.selectFrom('files').selectAll().where('file_id', '=', fileId).executeTakeFirst();
    if (!row) throw objectNotFound('uploads', fileId, 'the upload was removed');
    if (bytes <= row.reserved_bytes) return row.reserved_bytes;
    const others = (await usage(tx, row)).bytes;
    const possible = room(quota, others);
    if (bytes > possible) throw exceeded(quota, others);
    const reserved = Math.min(possible, row.bytes ?? bytes + reserveBytes);
    const granted = Math.max(bytes, reserved);
    await tx.updateTable('files').set({ reserved_bytes: granted }).where('file_id', '=', fileId).execute();
    return granted;
  });
}

function room({ bytesMax }: FileQuota, others: number): number {
  return bytesMax === 0 ? Number.MAX_SAFE_INTEGER : bytesMax - others;
}

/** The usage of the owner without the file itself. */
async function usage(db: Kysely<Schema>, { owner, file_id }: Pick<Selectable<FilesTable>, 'owner' | 'file_id'>) {
  const { files, bytes } = await db
    .selectFrom('files')
    .select((e) => [e.fn.countAll<number>().as('files'), e.fn.sum<number | null>('reserved_bytes').as('bytes')])
    .where('owner', '=', owner)
    .where('file_id', '<>', file_id)
    .executeTakeFirstOrThrow();
  return { files: Number(files), bytes: Number(bytes ?? 0) };
}

const tooMany = () =>
  new Failure('FILE_QUOTA_EXCEEDED', `a user can have at most ${filesPerOwnerMax} files; delete some first`, {
    filesPerOwnerMax,
  });

function exceeded({ bytesMax }: FileQuota, storedBytes: number): Failure {
  const message = `the files of this principal would exceed ${bytesMax} bytes in total; delete some first`;
  return new Failure('FILE_QUOTA_EXCEEDED', message, { principalFileBytesMax: bytesMax, storedBytes });
}
