// The metric of running and queued statements of each warehouse.
import type { Metrics } from '../observe/metrics.ts';
import type { Warehouses } from './warehouses.ts';

/** Registers the gauge; its value is computed at each scrape. */
export function measureLoad(metrics: Metrics, warehouses: Warehouses): void {
  metrics.gauge('tabularium_queries', 'Statements of a warehouse now.', async () =>
    (await warehouses.load()).flatMap(({ warehouse, running, queued }) => [
      { labels: { warehouse, state: 'running' }, value: running },
      { labels: { warehouse, state: 'queued' }, value: queued },
    ]),
  );
}
