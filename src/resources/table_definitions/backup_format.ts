// The format of table definitions in backups: the body of a request that creates the table, validated like one.
import type { TableBody } from '../../backups/manifest.ts';
import type { Engine, EngineWarehouse } from '../../engines/port/engine.ts';
import type { TableSpec } from '../../model/records.ts';
import { describe } from '../records/fields.ts';
import { bodyOf, checkDefaults, tableSpec } from './table_definition.ts';

export function backedUpBody(spec: TableSpec): TableBody {
  const { comment, properties } = spec;
  return { ...bodyOf(spec), ...(comment === undefined ? {} : { comment }), ...(properties ? { properties } : {}) };
}

/** Throws INVALID_PARAMETER if the table cannot be created. */
export async function restoredSpec(body: TableBody, engine: Engine, warehouse: EngineWarehouse): Promise<TableSpec> {
  const spec = describe(tableSpec(body, engine), body);
  if (spec.columns.some(({ defaultValue }) => defaultValue !== undefined))
    await checkDefaults(spec.columns, [], warehouse);
  return spec;
}
