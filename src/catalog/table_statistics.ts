// Refreshes the statistics of tables after writes: reads them from the engines once a second, never on the path of a request.
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { CatalogSpec } from '../model/records.ts';
import type { Observe } from '../observe/observations.ts';
import type { Catalog } from './catalog.ts';
import type { CatalogObject } from './object.ts';

export interface StatisticsOptions {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly observe: Observe;
}

const refreshMs = 1000;

const warehouseOf = ({ spec }: CatalogObject): string => (spec as CatalogSpec).warehouse;

export class StatisticsRefresher {
  readonly #options: StatisticsOptions;
  #timer: NodeJS.Timeout | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(options: StatisticsOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.refresh(), refreshMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#refreshing;
  }

  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #refresh(): Promise<void> {
    const { catalog, warehouses, observe } = this.#options;
    for (const { name: warehouse, engine } of await warehouses.allRunning()) {
      for (const { catalog: root, database, table: name } of engine.takeChangedTables()) {
        const path = [
          { category: 'catalogs', name: root },
          { category: 'databases', name: database },
          { category: 'tables', name },
        ];
        try {
          const [catalogObject, , table] = (await catalog.findFolded(path)) ?? [];
          // A catalog that was moved has its statistics from the move.
          if (!catalogObject || !table || warehouseOf(catalogObject) !== warehouse) continue;
          const ref = { catalog: { id: catalogObject.id, name: root }, database, table: name };
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
  }
}
