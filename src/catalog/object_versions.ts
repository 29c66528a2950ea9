// Earlier contents of objects, by version. Written in the transactions that change the objects, and deleted with the objects.
import type { Selectable, Transaction } from 'kysely';
import { bytesOf } from '../store/row_batches.ts';
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

/** Objects of one category that count together; `owner`: only those of this user. */
export interface CountedObjects {
  readonly category: string;
  readonly parentId: string | null;
  readonly owner?: string | undefined;
}

/**
 * Removes superseded versions of objects, oldest first, until all of them together have at most `bytesMax` bytes.
 * @returns how many objects there are, and their remaining bytes: more than `bytesMax` only if the objects alone exceed it.
 */
export async function trimVersions(
  tx: Transaction<Schema>,
  { category, parentId, owner }: CountedObjects,
  bytesMax: number,
): Promise<{ readonly count: number; readonly bytes: number }> {
  let objects = tx
    .selectFrom('objects')
    .where('objects.parent_id', parentId === null ? 'is' : '=', parentId)
    .where('objects.category', '=', category);
  if (owner !== undefined) objects = objects.where('objects.owner', '=', owner);
  const current = await objects
    .select((e) => [e.fn.countAll<number>().as('count'), e.fn.sum<number | null>(bytesOf(['spec'])).as('bytes')])
    .executeTakeFirstOrThrow();
  const versions = objects.innerJoin('object_versions', 'object_versions.object_id', 'objects.id');
  const sum = await versions.select((e) => e.fn.sum<number | null>('bytes').as('bytes')).executeTakeFirstOrThrow();
  const count = Number(current.count);
  const all = Number(current.bytes ?? 0) + Number(sum.bytes ?? 0);
  if (all <= bytesMax) return { count, bytes: all };
  const stored = await versions
    .select(['object_versions.object_id as objectId', 'object_versions.version as number', 'bytes'])
    .orderBy('saved_at')
    .orderBy('number')
    .execute();
  const latest = new Map(stored.map(({ objectId, number }) => [objectId, number]));
  // The contents of the latest version are those of the object.
  const superseded = stored.filter(({ objectId, number }) => latest.get(objectId) !== number);
  let bytes = superseded.reduce((total, version) => total + version.bytes, Number(current.bytes ?? 0));
  if (bytes <= bytesMax) return { count, bytes };
  for (const version of superseded) {
    if (bytes <= bytesMax * trimmedShare) break;
    await removeVersion(tx, version.objectId, version.number);
    bytes -= version.bytes;
  }
  return { count, bytes };
}

async function removeVersion(tx: Transaction<Schema>, objectId: string, version: number): Promise<void> {
  await tx.deleteFrom('object_versions').where('object_id', '=', objectId).where('version', '=', version).execute();
}
