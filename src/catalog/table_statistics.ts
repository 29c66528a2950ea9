// Keeps the statistics of tables near the truth: asks the engines about tables that were written, a moment after, never on
// the path of a request.
import type { Warehouses } from '../engines/warehouses.ts';
import type { Observe } from '../observe/observations.ts';
import type { Catalog } from './catalog.ts';

export interface StatisticsOptions {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
  readonly observe: Observe;
}

const refreshMs = 1000;

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
    for (const engine of await warehouses.allRunning()) {
      for (const { catalog: root, database, table: name } of engine.takeChangedTables()) {
        const path = [
          { category: 'catalogs', name: root },
          { category: 'databases', name: database },
          { category: 'tables', name },
        ];
        try {
          const [holder, , table] = (await catalog.findFolded(path)) ?? [];
          if (!holder || !table) continue;
          const ref = { catalog: { id: holder.id, name: root }, database, table: name };
          const { rowCount, dataBytes } = await engine.tableStatistics(ref);
          await catalog.saveStatistics(table.id, { rowCount, dataBytes, asOf: new Date().toISOString() });
        } catch (error) {
          // Dropped or renamed meanwhile, or the engine goes down: the next write asks again.
          const there = engine.running ? await catalog.findFolded(path).catch(() => undefined) : undefined;
          if (there?.every(({ state }) => state === 'ready'))
            observe({ kind: 'backgroundError', what: 'table statistics', error });
        }
      }
    }
  }
}
