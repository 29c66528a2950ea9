// Earlier contents of objects, by version. Written in the transactions that change the objects, and deleted with the objects.
import type { Selectable, Transaction } from 'kysely';
import type { ObjectVersionsTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

type VersionRow = Selectable<ObjectVersionsTable>;

export type StoredVersion = Omit<VersionRow, 'object_id' | 'content'>;

export interface NewVersion {
  readonly objectId: string;
  readonly version: number;
  /** Serialized as JSON. */
  readonly content: object;
  readonly savedAt: number;
  readonly savedBy: string;
  /** The number of versions that are stored of the object. */
  readonly versionsMax: number;
}

/** Trimming continues down to this share of the limit; otherwise the next change would exceed the limit again. */
const trimmedShare = 0.9;

/** Stores a version, and removes one if there are too many. */
export async function addVersion(tx: Transaction<Schema>, added: NewVersion): Promise<void> {
  const { objectId, version, savedAt, savedBy, versionsMax } = added;
  const content = JSON.stringify(added.content);
  const bytes = Buffer.byteLength(content);
  await tx
    .insertInto('object_versions')
    .values({ object_id: objectId, version, saved_at: savedAt, saved_by: savedBy, bytes, content })
    .execute();
  const stored = await tx
    .selectFrom('object_versions')
    .select(['version', 'saved_at'])
    .where('object_id', '=', objectId)
    .orderBy('version')
    .execute();
  if (stored.length <= versionsMax) return;
  const redundant = stored[indexOfRedundant(stored.map(({ saved_at }) => saved_at))] as (typeof stored)[number];
  await removeVersion(tx, objectId, redundant.version);
}

/**
 * The version that is removed when there is one too many: of the older half, the one saved soonest after its predecessor. Recent versions
 * are thus complete, and earlier ones are spread over the whole time. `savedAt`: oldest first.
 */
export function indexOfRedundant(savedAt: readonly number[]): number {
  let redundant = 1;
  let shortest = Number.POSITIVE_INFINITY;
  for (let i = 1; i < savedAt.length / 2; i++) {
    const gap = (savedAt[i] as number) - (savedAt[i - 1] as number);
    if (gap >= shortest) continue;
    shortest = gap;
    redundant = i;
  }
  return redundant;
}

export class ObjectVersions {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** Newest first. `before`: a version, after which the list continues. */
  list(
    objectId: string,
    { before = Number.MAX_SAFE_INTEGER, limit }: { readonly before?: number | undefined; readonly limit: number },
  ): Promise<StoredVersion[]> {
    return this.#store.db
      .selectFrom('object_versions')
      .select(['version', 'saved_at', 'saved_by', 'bytes'])
      .where('object_id', '=', objectId)
      .where('version', '<', before)
      .orderBy('version', 'desc')
      .limit(limit)
      .execute();
  }

  /** `C`: the contents that the category of the object stores. */
  async find<C extends object>(
    objectId: string,
    version: number,
  ): Promise<(StoredVersion & { readonly content: C }) | undefined> {
    const row = await this.#store.db
      .selectFrom('object_versions')
      .selectAll()
      .where('object_id', '=', objectId)
      .where('version', '=', version)
      .executeTakeFirst();
    return row && { ...row, content: JSON.parse(row.content) as C };
  }

  async latest(objectId: string): Promise<number | undefined> {
    return (await this.list(objectId, { limit: 1 }))[0]?.version;
  }
}

/**
 * Removes superseded versions of the children of an object, oldest first, until all of them together have at most `bytesMax` bytes.
 * @returns the remaining bytes: more than `bytesMax` only if the current versions alone exceed it.
 */
export async function trimVersions(
  tx: Transaction<Schema>,
  parentId: string,
  category: string,
  bytesMax: number,
): Promise<number> {
  const versions = tx
    .selectFrom('objects')
    .innerJoin('object_versions', 'object_versions.object_id', 'objects.id')
    .where('objects.parent_id', '=', parentId)
    .where('objects.category', '=', category);
  const sum = await versions.select((e) => e.fn.sum<number | null>('bytes').as('bytes')).executeTakeFirstOrThrow();
  let bytes = Number(sum.bytes ?? 0);
  if (bytes <= bytesMax) return bytes;
  const all = await versions
    .select(['object_versions.object_id as objectId', 'object_versions.version as number', 'bytes'])
    .orderBy('saved_at')
    .orderBy('number')
    .execute();
  const latest = new Map(all.map(({ objectId, number }) => [objectId, number]));
  const enough = bytesMax * trimmedShare;
  for (const one of all) {
    if (bytes <= enough) break;
    if (latest.get(one.objectId) === one.number) continue;
    await removeVersion(tx, one.objectId, one.number);
    bytes -= one.bytes;
  }
  return bytes;
}

async function removeVersion(tx: Transaction<Schema>, objectId: string, version: number): Promise<void> {
  await tx.deleteFrom('object_versions').where('object_id', '=', objectId).where('version', '=', version).execute();
}
