// What the store says of a file: its row, the record of it, and lists of them.
import type { Kysely, Selectable } from 'kysely';
import { type ObjectVersion, parseScopes, type Scope } from '../model/principal.ts';
import { likePattern } from '../model/text_patterns.ts';
import type { Batch } from '../store/row_batches.ts';
import { type Candidate, searchRows } from '../store/row_search.ts';
import type { FilesTable, Schema } from '../store/schema.ts';

export type FileKind = FilesTable['kind'];

/** Times are milliseconds since 1970. */
export interface StoredFile {
  readonly fileId: string;
  readonly kind: FileKind;
  /** Id of the user who owns it. */
  readonly owner: string;
  /** Scopes of the token that created it. */
  readonly scopes: readonly Scope[] | undefined;
  readonly name: string;
  readonly state: 'receiving' | 'ready';
  /** The announced size until the file is ready, then its size. */
  readonly bytes: number | null;
  readonly receivedBytes: number;
  /** In hexadecimal. */
  readonly sha256: string | null;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly updatedAt: number;
  readonly expiresAt: number;
  /** The task whose result includes it. */
  readonly taskId: string | null;
  /** The server that has its bytes; null: every server can read them. */
  readonly serverId: string | null;
  /** The key in the bucket; null: in the data directory. */
  readonly storedAs: string | null;
}

/** Identifies one upload: a later upload that reuses the id of a removed one is another. */
export const versionOfUpload = ({ fileId, createdAt, state }: StoredFile): ObjectVersion => ({
  objectId: `${fileId}/${createdAt}`,
  category: 'uploads',
  name: fileId,
  version: state === 'ready' ? 2 : 1,
});

export function toStoredFile(row: Selectable<FilesTable>): StoredFile {
  return {
    fileId: row.file_id,
    kind: row.kind,
    owner: row.owner,
    scopes: row.scopes === null ? undefined : parseScopes(row.scopes),
    name: row.name,
    state: row.state,
    bytes: row.bytes,
    receivedBytes: row.received_bytes,
    sha256: row.sha256,
    createdAt: row.created_at,
    createdBy: row.created_by,
    updatedAt: row.updated_at,
    expiresAt: row.expires_at,
    taskId: row.task_id,
    serverId: row.server_id,
    storedAs: row.stored_as,
  };
}

export interface FileListOptions {
  readonly kind: FileKind;
  /** Only the files of this user. */
  readonly owner?: string | undefined;
  readonly after?: string | undefined;
  readonly limit: number;
  /** A SQL LIKE pattern with `\` as its escape; case-insensitive. */
  readonly namePattern?: string | undefined;
  readonly state?: StoredFile['state'] | undefined;
}

/** In the order of creation: those that expire after `now`. */
export async function listFiles(db: Kysely<Schema>, options: FileListOptions, now: number): Promise<Batch<StoredFile>> {
  const { kind, owner, limit, namePattern, state } = options;
  const fits = namePattern === undefined ? () => true : likePattern(namePattern);
  const { items, hasMore, examined } = await searchRows({
    limit,
    idOf: ({ fileId }: StoredFile) => fileId,
    next: async (after: (Candidate & { readonly row: Selectable<FilesTable> }) | undefined, count) => {
      let query = db.selectFrom('files').selectAll().where('kind', '=', kind).where('expires_at', '>', now);
      query = query.orderBy('file_id').limit(count);
      const from = after?.id ?? options.after;
      if (from !== undefined) query = query.where('file_id', '>', from);
      if (owner !== undefined) query = query.where('owner', '=', owner);
      return (await query.execute()).map((row) => ({ id: row.file_id, row, bytes: row.name.length }));
    },
    examine: async (batch) =>
      batch
        .map(({ row }) => row)
        .filter((row) => (state === undefined || row.state === state) && fits(row.name))
        .map(toStoredFile),
  });
  return { items, hasMore, examined: examined?.id };
}
