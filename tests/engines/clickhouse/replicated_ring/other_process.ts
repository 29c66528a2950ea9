// A second process with the same servers and the same catalog, as several servers of an installation are.
import type { EngineWarehouse } from '../../../../src/engines/port/engine.ts';
import { type EngineWorld, spec } from '../../../conformance/engine/engine_world.ts';
import { accessTo, engineOn } from '../engine.ts';
import { clusterName } from './replicated_ring.ts';

/** The warehouse of another process with the catalog of a world, on these servers; it is not started yet. */
export const otherProcess = (world: EngineWorld, servers: readonly { readonly url: string }[]): EngineWarehouse =>
  engineOn(accessTo(servers, clusterName), servers).open({
    name: 'w',
    spec: { ...spec, engine: 'clickhouse' },
    dataDirectory: world.directory,
    spoolDirectory: world.spool,
    observe() {},
    catalogs: async () => [world.catalog],
  });
