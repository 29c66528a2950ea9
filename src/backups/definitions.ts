// What a catalog or a database holds by the store, and a snapshot of the engine that fits it: read before and after the snapshot
// began, and again until nothing was changed in between.
import { setTimeout as pause } from 'node:timers/promises';
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { CatalogRef, EngineWarehouse } from '../engines/engine.ts';
import type { Snapshot } from '../engines/snapshot.ts';
import type { CatalogSpec, DatabaseSpec, TableSpec, ViewSpec } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';
import { RetryableError } from '../tasks/task.ts';

const pageSize = 1000;
const firstPauseMs = 20;
const longestPauseMs = 1_000;
/** How long a backup waits, in one attempt, for definitions that keep changing or a change that takes long. */
const settledWaitMs = 60_000;

export interface DefinedDatabase {
  readonly object: CatalogObject<DatabaseSpec>;
  readonly tables: readonly CatalogObject<TableSpec>[];
  readonly views: readonly CatalogObject<ViewSpec>[];
}

export interface Definitions {
  readonly root: CatalogObject<CatalogSpec>;
  /** What is backed up: the catalog, or a database of it. */
  readonly of: CatalogObject<CatalogSpec | DatabaseSpec>;
  readonly databases: readonly DefinedDatabase[];
}

export const catalogRef = ({ id, name }: CatalogObject): CatalogRef => ({ id, name });

/** Throws OBJECT_NOT_FOUND where it is no more. */
export async function definitionsOf(catalog: Catalog, objectId: string): Promise<Definitions> {
  const chain = await catalog.findChain(objectId);
  const [root, database] = chain as [CatalogObject<CatalogSpec>?, CatalogObject<DatabaseSpec>?];
  const of = chain.at(-1);
  if (!root || !of)
    throw new Failure('OBJECT_NOT_FOUND', 'what was to be backed up is no more', {
      category: 'catalogs',
      name: objectId,
    });
  const databases: DefinedDatabase[] = [];
  for (const object of database ? [database] : await allOf<DatabaseSpec>(catalog, root.id, 'databases'))
    databases.push({
      object,
      tables: await allOf<TableSpec>(catalog, object.id, 'tables'),
      views: await allOf<ViewSpec>(catalog, object.id, 'views'),
    });
  return { root, of: of as Definitions['of'], databases };
}

async function allOf<S>(catalog: Catalog, parentId: string, category: string): Promise<CatalogObject<S>[]> {
  const all: CatalogObject<S>[] = [];
  for (let after: string | undefined; ; ) {
    const some = (await catalog.list(parentId, category, { after, limit: pageSize })) as CatalogObject<S>[];
    all.push(...some);
    if (some.length < pageSize) return all;
    after = some.at(-1)?.name;
  }
}

function objectsOf({ root, of, databases }: Definitions): CatalogObject[] {
  return [root, of, ...databases.flatMap(({ object, tables, views }) => [object, ...tables, ...views])];
}

/** Two that are alike here are alike in the engine: what it does to an object is done while that is in another state. */
const stateOf = (definitions: Definitions) =>
  JSON.stringify(objectsOf(definitions).map(({ id, version, name, state }) => [id, version, name, state]));

const isSettled = (definitions: Definitions) => objectsOf(definitions).every(({ state }) => state === 'ready');

export interface Consistent {
  readonly definitions: Definitions;
  readonly snapshot: Snapshot;
  readonly takenAt: string;
}

/** The snapshot is to be closed. Throws RetryableError where the definitions do not come to rest. */
export async function consistentSnapshot(
  catalog: Catalog,
  objectId: string,
  engine: EngineWarehouse,
  signal: AbortSignal,
): Promise<Consistent> {
  const deadline = performance.now() + settledWaitMs;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    const definitions = await definitionsOf(catalog, objectId);
    if (isSettled(definitions)) {
      const snapshot = await begun(engine, catalogRef(definitions.root), signal);
      const takenAt = new Date().toISOString();
      try {
        const after = snapshot && (await definitionsOf(catalog, objectId));
        if (snapshot && after && stateOf(after) === stateOf(definitions)) return { definitions, snapshot, takenAt };
      } catch (error) {
        await snapshot?.close();
        throw error;
      }
      await snapshot?.close();
    }
    if (performance.now() > deadline) throw new RetryableError('what is to be backed up keeps being changed');
    await pause(pauseMs, undefined, { signal });
  }
}

/** Undefined where the catalog has just been renamed. */
async function begun(engine: EngineWarehouse, catalog: CatalogRef, signal: AbortSignal): Promise<Snapshot | undefined> {
  try {
    return await engine.snapshot(catalog, { signal });
  } catch (error) {
    if (error instanceof Failure && error.code === 'CHANGE_IN_PROGRESS') return undefined;
    throw error;
  }
}
