// The engines that the model of the catalog runs on: in memory; and, where the suite is imported with `engine=duckdb` or `engine=clickhouse`, DuckDB
// or a ClickHouse cluster.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EngineInMemory } from './engine_in_memory.ts';

export interface CatalogEngines {
  /** How many of so many random histories run here. */
  runs(count: number): number;
  /** An engine without catalogs; the one before it is no longer used. */
  open(): Promise<EngineInMemory>;
  close(): Promise<void>;
}

const inMemory: CatalogEngines = {
  runs: (count) => count,
  open: async () => new EngineInMemory(),
  close: async () => {},
};

/** A change takes some 100 ms there. */
const historiesOnCluster = 6;

async function onCluster(): Promise<CatalogEngines> {
  const { accessTo, engineOn } = await import('../engines/clickhouse/engine.ts');
  const { startRing } = await import('../engines/clickhouse/ring/ring.ts');
  const { spec } = await import('../conformance/engine/engine_world.ts');
  const { EngineOnCluster, emptyNodes } = await import('./engine_on_cluster.ts');
  const ring = await startRing(2);
  const engine = engineOn(accessTo(ring.nodes), ring.nodes);
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-catalog-'));
  const warehouse = engine.open({
    name: 'w',
    spec: { ...spec, engine: engine.name },
    dataDirectory: directory,
    spoolDirectory: directory,
    observe: () => {},
    catalogs: async () => [],
  });
  await warehouse.start();
  return {
    runs: () => historiesOnCluster,
    async open() {
      await emptyNodes(ring.nodes);
      return new EngineOnCluster(warehouse, ring.nodes);
    },
    async close() {
      await warehouse.stop();
      await ring.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A change takes some 10 ms there. */
const historiesOnDuckdb = 8;

async function onDuckdb(): Promise<CatalogEngines> {
  const { duckdbEngine } = await import('../../src/engines/duckdb/duckdb.ts');
  const { spec } = await import('../conformance/engine/engine_world.ts');
  const { EngineOnDuckdb } = await import('./engine_on_duckdb.ts');
  const directory = mkdtempSync(join(tmpdir(), 'tabularium-catalog-'));
  const warehouse = duckdbEngine.open({
    name: 'w',
    spec,
    dataDirectory: directory,
    spoolDirectory: directory,
    observe: () => {},
    catalogs: async () => [],
  });
  await warehouse.start();
  let current: InstanceType<typeof EngineOnDuckdb> | undefined;
  return {
    runs: () => historiesOnDuckdb,
    async open() {
      await current?.empty();
      current = new EngineOnDuckdb(warehouse, directory);
      return current;
    },
    async close() {
      await warehouse.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export function enginesOf(url: string): Promise<CatalogEngines> {
  const engine = new URL(url).searchParams.get('engine');
  if (engine === 'duckdb') return onDuckdb();
  return engine === 'clickhouse' ? onCluster() : Promise.resolve(inMemory);
}
