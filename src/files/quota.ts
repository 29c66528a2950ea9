// How much the files of one owner may be together. A file counts for what is reserved for it: what was announced, or what has come and
// is about to.
import type { Kysely, Selectable } from 'kysely';
import { Failure } from '../standard/failure.ts';
import type { FilesTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export interface FileQuota {
  /** Of all files of an owner; 0: no cap. */
  readonly bytesMax: number;
  readonly uploadBytesMax: number;
}

/** Small ones have a price too. */
export const filesPerOwnerMax = 10_000;
/** Where the size of a file is not known, it has so much more at a time. */
const reserveBytes = 64 * 1024 * 1024;

/** To be asked in the transaction that adds the file. Throws FILE_QUOTA_EXCEEDED, BODY_TOO_LARGE. */
export async function requireFileQuota(
  on: Kysely<Schema>,
  row: Selectable<FilesTable>,
  quota: FileQuota,
): Promise<void> {
  const { uploadBytesMax } = quota;
  if (row.kind === 'upload' && row.reserved_bytes > uploadBytesMax)
    throw new Failure('BODY_TOO_LARGE', `an upload has at most ${uploadBytesMax} bytes`, { bytesMax: uploadBytesMax });
  const { files, bytes } = await usage(on, row);
  if (files >= filesPerOwnerMax) throw tooMany();
  if (row.reserved_bytes > room(quota, bytes)) throw exceeded(quota, bytes);
}

/** How many bytes an owner may add. Throws FILE_QUOTA_EXCEEDED where nothing more can be kept. */
export async function remainingBytes(on: Kysely<Schema>, owner: string, quota: FileQuota): Promise<number> {
  const { files, bytes } = await usage(on, { owner, file_id: '' });
  if (files >= filesPerOwnerMax) throw tooMany();
  const left = room(quota, bytes);
  if (left <= 0) throw exceeded(quota, bytes);
  return left;
}

/** Makes room for at least so many bytes in all; the answer is for how many. Throws FILE_QUOTA_EXCEEDED. */
export function reserveFor(store: Store, fileId: string, bytes: number, quota: FileQuota): Promise<number> {
  return store.transaction(async (tx) => {
    const row = await tx.selectFrom('files').selectAll().where('file_id', '=', fileId).executeTakeFirst();
    if (!row) throw new Failure('OBJECT_NOT_FOUND', 'the upload was removed', { category: 'uploads', name: fileId });
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

/** Of the owner, apart from the file itself. */
async function usage(on: Kysely<Schema>, { owner, file_id }: Pick<Selectable<FilesTable>, 'owner' | 'file_id'>) {
  const { files, bytes } = await on
    .selectFrom('files')
    .select((e) => [e.fn.countAll<number>().as('files'), e.fn.sum<number | null>('reserved_bytes').as('bytes')])
    .where('owner', '=', owner)
    .where('file_id', '<>', file_id)
    .executeTakeFirstOrThrow();
  return { files: Number(files), bytes: Number(bytes ?? 0) };
}

const tooMany = () =>
  new Failure('FILE_QUOTA_EXCEEDED', `one owner has at most ${filesPerOwnerMax} files`, { filesPerOwnerMax });

function exceeded({ bytesMax }: FileQuota, storedBytes: number): Failure {
  const message = 'the files of this principal are as large together as they may be';
  return new Failure('FILE_QUOTA_EXCEEDED', message, { principalFileBytesMax: bytesMax, storedBytes });
}
