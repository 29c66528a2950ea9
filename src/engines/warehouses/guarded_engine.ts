// Wraps an engine: refuses work on damaged catalogs, and records writes before they are acknowledged. A method whose first argument names a
// catalog is guarded as a read of that catalog; only those that write, or that differ in another way, are named here.
import { setTimeout as pause } from 'node:timers/promises';
import { foldName } from '../../model/names.ts';
import { Failure } from '../../standard/failure.ts';
import { type CatalogGuard, catalogDamaged } from '../catalog_guard.ts';
import { type CatalogWrites, longest, type WrittenTable } from '../copies/catalog_writes.ts';
import type { WriteFence } from '../copies/write_fence.ts';
import { engineWith } from '../derived_engine.ts';
import { type Change, catalogOf } from '../port/changes.ts';
import type { EngineWarehouse } from '../port/engine.ts';
import type { CatalogRef, TableName, TableRef } from '../port/refs.ts';
import type { WriteGate } from './write_gate.ts';

/** Changes that need little space and may free some: allowed on a disk that is almost full. */
const allowedOnFullDisk: ReadonlySet<Change['kind']> = new Set([
  'dropCatalog',
  'hideCatalog',
  'dropDatabase',
  'hideDatabase',
  'dropTable',
  'hideTable',
  'dropView',
  'purge',
  'truncateTable',
]);

/** Changes that detach the catalog and therefore do not need an intact file. */
const detachingChanges: ReadonlySet<Change['kind']> = new Set(['dropCatalog', 'hideCatalog']);

export interface GuardedOptions {
  readonly engine: EngineWarehouse;
  readonly guard: CatalogGuard;
  /** Throws STORAGE_FULL on a disk that is almost full. */
  readonly requireRoom: () => void;
  readonly gate: WriteGate;
  readonly writes: CatalogWrites;
  /** Undefined if only this server writes to the warehouse. */
  readonly fence?: WriteFence | undefined;
}

/** So long a write waits for a snapshot to be taken, which holds writes for a shorter time. */
const snapshotWaitMs = 25_000;
const snapshotPollMs = 20;

/** Runs writes of rows of tables, each in its catalog: they wait or are refused while the catalog is held, and are known while they run. */
function rowWriter({ gate, writes, fence }: Pick<GuardedOptions, 'gate' | 'writes' | 'fence'>) {
  return async <T>(
    tables: readonly (WrittenTable & { readonly in: CatalogRef })[],
    write: (catalogs: readonly CatalogRef[], work: () => Promise<T>) => Promise<T>,
    work: () => Promise<T>,
  ): Promise<T> => {
    let since: number | undefined;
    for (const began = performance.now(); ; await pause(snapshotPollMs)) {
      await gate.passed();
      since = await fence?.passed();
      const holds = tables.flatMap(({ in: { id } }) => [fence?.heldFor(id) ?? [], writes.heldFor(id) ?? []].flat());
      if (longest(holds) !== 'snapshot' || performance.now() - began > snapshotWaitMs) break;
    }
    const ends: (() => void)[] = [];
    try {
      for (const table of tables) {
        fence?.requireFree(table.in.id);
        ends.push(writes.begin(table.in.id, [table]));
      }
      const catalogs = tables.map((table) => table.in);
      const done = await write(catalogs, work);
      const ids = catalogs.map(({ id }) => id);
      if (since !== undefined) await fence?.requireUnbroken(since, ids);
      return done;
    } finally {
      for (const end of ends) end();
    }
  };
}

/** Wrappers that run calls under the guard of their catalogs. */
function guardedCalls(options: GuardedOptions) {
  const { engine, guard, requireRoom, gate, writes } = options;
  /**
   * A read: refused if the catalog is not attached. Damage found during the read belongs to one of the catalogs of `tables`, if
   * there are any.
   */
  const reading = async <T>(catalog: CatalogRef, work: () => Promise<T>, tables: readonly TableName[] = []) => {
    guard.require(catalog);
    const end = writes.beginRead(catalog.id);
    try {
      return await work();
    } catch (error) {
      const read = tables.flatMap((table) => guard.named(table.catalog) ?? []);
      throw attributed(error, read.length === 0 ? [catalog] : read);
    } finally {
      end();
    }
  };
  const writing = async <T>(catalogs: readonly CatalogRef[], work: () => Promise<T>) => {
    await gate.passed();
    for (const catalog of catalogs) guard.require(catalog);
    try {
      const done = await work();
      for (const catalog of catalogs) await guard.written(catalog);
      return done;
    } catch (error) {
      throw attributed(error, catalogs);
    }
  };
  /** Attributes damage to a catalog: the engine does not know which file it belongs to. */
  const attributed = (error: unknown, catalogs: readonly CatalogRef[]) => {
    if (!(error instanceof Failure) || error.code !== 'CATALOG_DAMAGED' || error.result.catalog !== undefined)
      return error;
    const [first] = catalogs;
    const ids = new Set(catalogs.map(({ id }) => id));
    const reason = String(error.result.reason);
    if (!first) return error;
    if (ids.size === 1 && error.result.isFatal === true) guard.setAside(first, reason);
    else if (ids.size === 1) guard.damagedWithin(first, reason);
    return catalogDamaged({ name: first.name, reason }, error.result.isFatal === true ? 'unknown' : undefined);
  };
  /** The damaged catalog that a statement names: for one that is not attached, the engine reports that it does not exist. */
  const damagedIn = async (sql: string, error: unknown): Promise<Failure | undefined> => {
    const missing = guard.damaged().filter(({ isAttached }) => !isAttached);
    if (missing.length === 0 || !(error instanceof Failure) || error.code !== 'SQL_INVALID') return undefined;
    const names = new Set((await engine.tableNamesIn(sql)).map(([first = '']) => foldName(first)));
    const found = missing.find(
      ({ name }) => names.has(foldName(name)) || error.message.includes(`${JSON.stringify(name)} does not exist`),
    );
    return found && catalogDamaged(found);
  };
  /** A write that needs disk space. */
  const adding = async <T>(catalogs: readonly CatalogRef[], work: () => Promise<T>) => {
    requireRoom();
    return writing(catalogs, work);
  };
  const writingRows = rowWriter(options);
  const addingTo = <T>(table: TableRef, work: () => Promise<T>) =>
    writingRows([{ ...table, in: table.catalog }], adding, work);
  return { reading, writing, adding, addingTo, writingRows, damagedIn };
}

/** The catalog of a table, a database or a statement, or a catalog. */
function catalogOfArgument(argument: unknown): CatalogRef | undefined {
  if (typeof argument !== 'object' || argument === null) return undefined;
  if ('catalog' in argument) return argument.catalog as CatalogRef;
  return 'id' in argument && 'name' in argument ? (argument as CatalogRef) : undefined;
}

export function guardedEngine(options: GuardedOptions): EngineWarehouse {
  const { engine, guard, gate } = options;
  const { reading, writing, adding, addingTo, writingRows, damagedIn } = guardedCalls(options);
  const guarded: Partial<EngineWarehouse> = {
    // These are for catalogs that are not attached.
    attach: (catalog) => engine.attach(catalog),
    checkFile: (catalog, expected, options) => engine.checkFile(catalog, expected, options),
    cost: (change) =>
      detachingChanges.has(change.kind) ? engine.cost(change) : reading(catalogOf(change), () => engine.cost(change)),
    forget: (catalog, steps) => writing([catalog], () => engine.forget(catalog, steps)),
    analyze: (statement, request) =>
      reading(statement.catalog, async () => {
        try {
          return await engine.analyze(statement, request);
        } catch (error) {
          throw (await damagedIn(statement.sql, error)) ?? error;
        }
      }),
    optimize: (table, options) => writing([table.catalog], () => engine.optimize(table, options)),
    load: (work, options) => addingTo(work.table, () => engine.load(work, options)),
    recordSteps: (copied) => adding([copied.catalog], () => engine.recordSteps(copied)),
    restorePart: (part, options) => addingTo(part.table, () => engine.restorePart(part, options)),
    insertRows: (table, batch, options) => addingTo(table, () => engine.insertRows(table, batch, options)),
    execute(statement, options) {
      const { reads, writes, kind } = options.analysis;
      if (writes.length === 0) return reading(statement.catalog, () => engine.execute(statement, options), reads);
      const tables = writes.map((table) => ({ ...table, in: guard.named(table.catalog) ?? statement.catalog }));
      return writingRows(tables, kind === 'delete' ? writing : adding, () => engine.execute(statement, options));
    },
    async apply(change, options) {
      if (detachingChanges.has(change.kind)) {
        await gate.passed();
        return guard.detach(catalogOf(change), () => engine.apply(change, options));
      }
      const write = allowedOnFullDisk.has(change.kind) ? writing : adding;
      return write([catalogOf(change)], () => engine.apply(change, options));
    },
  };
  return engineWith(engine, guarded, (method) => (...parameters) => {
    const catalog = catalogOfArgument(parameters[0]);
    if (catalog === undefined) return method(...parameters);
    return reading(catalog, async () => method(...parameters));
  });
}
