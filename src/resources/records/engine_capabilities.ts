// Refuses calls that need a capability which the engine of their warehouse lacks, where the declaration says that all calls need it.
// Handlers check the others with `requireCapabilityOfPath`, or with engines/required_capability.ts where they have the engine.
import type { Catalog } from '../../catalog/catalog.ts';
import { isOf } from '../../catalog/object.ts';
import { requireCapability } from '../../engines/required_capability.ts';
import type { Warehouses } from '../../engines/warehouses/warehouses.ts';
import type { EngineCapability } from '../../model/engine_capabilities.ts';
import type { Endpoint } from '../../standard/endpoint.ts';
import type { Segment } from '../../standard/paths.ts';

interface Parts {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
}

export function withRequiredCapabilities<Context extends Parts>(endpoint: Endpoint<Context>): Endpoint<Context> {
  const required = (endpoint.needs ?? []).filter(({ when }) => when === undefined);
  if (required.length === 0) return endpoint;
  return {
    ...endpoint,
    handle: async (input, context) => {
      for (const { capability } of required) await requireCapabilityOfPath(capability, input.segments, context);
      return endpoint.handle(input, context);
    },
  };
}

/**
 * The engine is that of the catalog of the path. A path without a catalog is refused if no engine has the capability. Costs nothing
 * where all engines have it.
 */
export async function requireCapabilityOfPath(
  capability: EngineCapability,
  [root]: readonly Segment[],
  { catalog, warehouses }: Parts,
): Promise<void> {
  if (warehouses.allHave(capability)) return;
  if (root === undefined) return warehouses.requireOfAny(capability);
  const [object] = (await catalog.find([root])) ?? [];
  if (object && isOf(object, 'catalogs'))
    requireCapability(await warehouses.engineOf(object.spec.warehouse), capability);
}
