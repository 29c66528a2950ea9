// How the definition of a table stands in a backup: as the body that makes it, read as a request is.
import type { TableBody } from '../../backups/manifest.ts';
import type { Engine, EngineWarehouse } from '../../engines/engine.ts';
import type { TableSpec } from '../../model/records.ts';
import { describe } from '../records/fields.ts';
import { bodyOf, checkDefaults, tableSpec } from './table_definition.ts';

export function backedUpBody(spec: TableSpec): TableBody {
  const { comment, properties } = spec;
  return { ...bodyOf(spec), ...(comment === undefined ? {} : { comment }), ...(properties ? { properties } : {}) };
}

/** Throws INVALID_PARAMETER where no table can be made so. */
export async function restoredSpec(body: TableBody, engine: Engine, warehouse: EngineWarehouse): Promise<TableSpec> {
  const spec = describe(tableSpec(body, engine), body);
  if (spec.columns.some(({ defaultValue }) => defaultValue !== undefined))
    await checkDefaults(spec.columns, [], warehouse);
  return spec;
}
