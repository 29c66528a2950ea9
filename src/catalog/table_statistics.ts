// Refreshes the statistics of tables after writes, and after their catalog or database was restored or renamed, which loses reports of
// writes: reads them from the engines once a second, never on the path of a request.
import type { EngineWarehouse } from '../engines/port/engine.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { CatalogSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { Catalog } from './catalog.ts';
import type { CatalogObject, ObjectPath } from './object.ts';

export interface StatisticsOptions {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly observe: Observe;
}

type Engine = Pick<EngineWarehouse, 'running' | 'tableStatistics'>;

const refreshMs = 1000;

const warehouseOf = ({ spec }: CatalogObject): string => (spec as CatalogSpec).warehouse;

export class StatisticsRefresher {
  readonly #options: StatisticsOptions;
  #timer: NodeJS.Timeout | undefined;
  #refreshing: Promise<void> | undefined;
  #isStopping = false;

  constructor(options: StatisticsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.refresh(), refreshMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    clearInterval(this.#timer);
    await this.#refreshing;
  }

  /** Never rejects: nobody waits for the refreshes of the timer, and an unhandled rejection ends the process. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh()
      .catch((error) => this.#options.observe({ kind: 'backgroundError', what: 'table statistics', error }))
      .finally(() => {
        this.#refreshing = undefined;
      });
    return this.#refreshing;
  }

  async #refresh(): Promise<void> {
    const { catalog, warehouses } = this.#options;
    const engines = new Map((await warehouses.allRunning()).map(({ name, engine }) => [name, engine]));
    for (const [warehouse, engine] of engines)
      for (const { catalog: root, database, table: name } of engine.takeChangedTables()) {
        const path = [
          { category: 'catalogs', name: root },
          { category: 'databases', name: database },
          { category: 'tables', name },
        ];
        await this.#refreshTable(engine, warehouse, path);
      }
    for (const chain of await catalog.takeRelocatedTables()) {
      if (this.#isStopping) return;
      const warehouse = chain[0] && warehouseOf(chain[0]);
      const engine = warehouse === undefined ? undefined : engines.get(warehouse);
      if (warehouse !== undefined && engine) await this.#refreshTable(engine, warehouse, chain);
    }
  }

  async #refreshTable(engine: Engine, warehouse: string, path: ObjectPath): Promise<void> {
    const { catalog, observe } = this.#options;
    try {
      const [root, database, table] = (await catalog.findFolded(path)) ?? [];
      // A catalog that was moved has its statistics from the move.
      if (!root || !database || !table || warehouseOf(root) !== warehouse) return;
      const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
      const { rowCount, dataBytes } = await engine.tableStatistics(ref);
      await catalog.saveStatistics(table.id, { rowCount, dataBytes, asOf: new Date().toISOString() });
    } catch (error) {
      // The table was dropped, renamed or moved meanwhile, or the engine is stopping: the next write triggers another refresh.
      const chain = engine.running ? await catalog.findFolded(path).catch(() => undefined) : undefined;
      const isHere = chain?.[0] !== undefined && warehouseOf(chain[0]) === warehouse;
      if (isHere && chain.every(({ state }) => state === 'ready'))
        observe({ kind: 'backgroundError', what: 'table statistics', error });
    }
  }
}
