// Reads the definitions in a catalog or a database together with a matching snapshot of the engine. The definitions are read before and
// after the snapshot begins, and both are repeated until nothing changed in between.
import { setTimeout as pause } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { CatalogRef } from '../engines/port/refs.ts';
import type { Snapshot } from '../engines/port/snapshot.ts';
import type { CatalogSpec, DatabaseSpec, TableSpec, ViewSpec } from '../model/records.ts';
import { Failure, objectNotFound } from '../standard/failure.ts';
import { RetryableError } from '../tasks/task.ts';
import type { MetadataCategory } from './metadata_objects.ts';

const pageSize = 1000;
const firstPauseMs = 20;
const longestPauseMs = 1_000;
/** How long one attempt waits for definitions that keep changing, or for a long change. */
const settledWaitMs = 60_000;

export interface DefinedDatabase {
  readonly object: CatalogObject<DatabaseSpec>;
  readonly tables: readonly CatalogObject<TableSpec>[];
  readonly views: readonly CatalogObject<ViewSpec>[];
  /** Objects without a part in an engine. */
  readonly objects: readonly CatalogObject[];
}

export interface SourceDefinitions {
  readonly root: CatalogObject<CatalogSpec>;
  /** The object to back up: the catalog, or a database of it. */
  readonly source: CatalogObject<CatalogSpec | DatabaseSpec>;
  readonly databases: readonly DefinedDatabase[];
}

export const catalogRef = ({ id, name }: CatalogObject): CatalogRef => ({ id, name });

/** `categories`: of the objects without a part in an engine. Throws OBJECT_NOT_FOUND if the object no longer exists. */
export async function readDefinitions(
  catalog: Catalog,
  objectId: string,
  categories: readonly MetadataCategory[],
): Promise<SourceDefinitions> {
  const chain = await catalog.findChain(objectId);
  const [root, database] = chain as [CatalogObject<CatalogSpec>?, CatalogObject<DatabaseSpec>?];
  const source = chain.at(-1);
  if (!root || !source) throw objectNotFound('catalogs', objectId, 'the object to back up no longer exists');
  const databases: DefinedDatabase[] = [];
  for (const object of database ? [database] : await listAll<DatabaseSpec>(catalog, root.id, 'databases'))
    databases.push({
      object,
      tables: await listAll<TableSpec>(catalog, object.id, 'tables'),
      views: await listAll<ViewSpec>(catalog, object.id, 'views'),
      objects: await Array.fromAsync(categories, ({ name }) => listAll(catalog, object.id, name)).then((all) =>
        all.flat(),
      ),
    });
  return { root, source: source as SourceDefinitions['source'], databases };
}

async function listAll<S>(catalog: Catalog, parentId: string, category: string): Promise<CatalogObject<S>[]> {
  const all: CatalogObject<S>[] = [];
  for (let after: string | undefined; ; ) {
    const page = (await catalog.list(parentId, category, { after, limit: pageSize })) as CatalogObject<S>[];
    all.push(...page);
    if (page.length < pageSize) return all;
    after = page.at(-1)?.name;
  }
}

function objectsOf({ root, source, databases }: SourceDefinitions): CatalogObject[] {
  return [
    root,
    source,
    ...databases.flatMap(({ object, tables, views, objects }) => [object, ...tables, ...views, ...objects]),
  ];
}

/** Equal states imply equal contents in the engine: while the engine changes an object, the object has another state. */
const stateOf = (definitions: SourceDefinitions) =>
  JSON.stringify(objectsOf(definitions).map(({ id, version, name, state }) => [id, version, name, state]));

const isSettled = (definitions: SourceDefinitions) => objectsOf(definitions).every(({ state }) => state === 'ready');

export interface Consistent {
  readonly definitions: SourceDefinitions;
  readonly snapshot: Snapshot;
  readonly takenAt: string;
}

/** `take`: takes a snapshot of what is defined. The caller closes it. Throws RetryableError if the definitions keep changing. */
export async function consistentSnapshot(
  catalog: Catalog,
  objectId: string,
  categories: readonly MetadataCategory[],
  take: (definitions: SourceDefinitions) => Promise<Snapshot>,
  signal: AbortSignal,
): Promise<Consistent> {
  const deadline = performance.now() + settledWaitMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const definitions = await readDefinitions(catalog, objectId, categories);
    if (isSettled(definitions)) {
      const snapshot = await unlessRenamed(take(definitions));
      const takenAt = new Date().toISOString();
      try {
        const after = snapshot && (await readDefinitions(catalog, objectId, categories));
        if (snapshot && after && stateOf(after) === stateOf(definitions)) return { definitions, snapshot, takenAt };
      } catch (error) {
        await snapshot?.close();
        throw error;
      }
      await snapshot?.close();
    }
    if (performance.now() > deadline)
      throw new RetryableError('the object to back up was changed during each attempt; retry later');
    await pause(pauseMs, undefined, { signal });
  }
}

/** Returns undefined if the catalog has just been renamed. */
async function unlessRenamed(taken: Promise<Snapshot>): Promise<Snapshot | undefined> {
  try {
    return await taken;
  } catch (error) {
    if (error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS') return undefined;
    throw error;
  }
}
