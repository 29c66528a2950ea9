// Objects and how they change: every change is an intent, an engine step, a commit.
import type { EngineWarehouse } from '../engines/engine.ts';
import type { TableStatistics } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { Store } from '../store/store.ts';
import type {
  CatalogObject,
  Category,
  ChangeEvent,
  CreateRequest,
  DropRequest,
  ListOptions,
  ObjectPath,
  UpdateOutcome,
  UpdateRequest,
} from './object.ts';

export interface CatalogOptions {
  readonly store: Store;
  readonly engineOf: (warehouse: string) => Promise<Pick<EngineWarehouse, 'apply' | 'cost' | 'forget'>>;
  readonly clock?: (() => number) | undefined;
  readonly observe?: Observe | undefined;
  /** A task row was committed with a change: wakes the runner (`() => tasks.notify()`). */
  readonly onTask?: (() => void) | undefined;
}

export class Catalog {
  constructor(options: CatalogOptions) {
    void options;
  }

  /** The whole chain, root first; undefined where any of it is missing. */
  async find(path: ObjectPath): Promise<CatalogObject[] | undefined> {
    throw new Error(`not yet: ${path}`);
  }

  /** As `find`; throws OBJECT_NOT_FOUND {category, name} of the first missing one. */
  async require(path: ObjectPath): Promise<CatalogObject[]> {
    throw new Error(`not yet: ${path}`);
  }

  async byId(id: string): Promise<CatalogObject | undefined> {
    throw new Error(`not yet: ${id}`);
  }

  /** Ordered by name, by code points. */
  async list(parentId: string | null, category: Category, options: ListOptions): Promise<CatalogObject[]> {
    throw new Error(`not yet: ${parentId} ${category} ${options}`);
  }

  async count(parentId: string | null, category: Category): Promise<number> {
    throw new Error(`not yet: ${parentId} ${category}`);
  }

  async statistics(objectId: string): Promise<TableStatistics | undefined> {
    throw new Error(`not yet: ${objectId}`);
  }

  /** The same for many objects at once, by id; objects without statistics are absent. */
  async statisticsOf(objectIds: readonly string[]): Promise<Map<string, TableStatistics>> {
    throw new Error(`not yet: ${objectIds}`);
  }

  async saveStatistics(objectId: string, statistics: TableStatistics): Promise<void> {
    throw new Error(`not yet: ${objectId} ${statistics}`);
  }

  async create<S>(request: CreateRequest<S>): Promise<{ object: CatalogObject<S>; created: boolean }> {
    throw new Error(`not yet: ${request}`);
  }

  async update<S>(object: CatalogObject, request: UpdateRequest<S>): Promise<UpdateOutcome<S>> {
    throw new Error(`not yet: ${object} ${request}`);
  }

  /** False where it was gone already. */
  async drop(object: CatalogObject, request: DropRequest): Promise<boolean> {
    throw new Error(`not yet: ${object} ${request}`);
  }

  /**
   * Runs `attempt` again (a few times) when it failed because the object changed between its look-up and its change. A
   * handler that reads an object, computes a new spec from it and calls `update` wraps all three.
   */
  async retrying<T>(attempt: () => Promise<T>): Promise<T> {
    return attempt();
  }

  /** The body of a rewriting change's task. */
  async runIntent(taskId: string, options: { readonly signal: AbortSignal }): Promise<CatalogObject> {
    throw new Error(`not yet: ${taskId} ${options}`);
  }

  /** For a task that ended without running (cancelled while pending): ends its intent at once instead of at the next `recover`. */
  async settleTask(taskId: string): Promise<void> {
    throw new Error(`not yet: ${taskId}`);
  }

  /** At start and every minute: finishes or undoes open intents that no task owns. */
  async recover(): Promise<void> {}

  onChange(listener: (event: ChangeEvent) => void): void {
    void listener;
  }
}
