// The handler of `compare` of tables: the definition that a body describes, and what changing the table of its name to it would take.
import type { Handlers } from '../../api/handlers.ts';
import type { tablesApi } from '../../api/tables/tables.ts';
import type { ChangeCost } from '../../engines/port/changes.ts';
import type { TableSpec } from '../../model/records.ts';
import { segment } from '../../standard/paths.ts';
import type { Context } from '../records/handler_context.ts';
import { render } from '../records/object_records.ts';
import { done } from '../records/outcomes.ts';
import { requirePrivilege, requireUnreserved, requireWarehouse } from '../records/permissions.ts';
import {
  alterationOf,
  type DefinitionParents,
  type ParentPath,
  patchedSpec,
  pathOfTable,
  readDefinition,
  requireReplicas,
  type TableChain,
} from './create_and_alter.ts';
import { bodyOf, checkDefaults, withColumnRenamed, withKeysNotNull } from './table_definition.ts';
import { definitionFields, tableRecordOf } from './table_record.ts';

export const compareTable: Handlers<typeof tablesApi, Context>['compare'] = async ({ segments, body }, context) => {
  const { renamedFrom, renamedColumns = {}, keepColumns = false, warehouse: planned, ...declared } = body;
  const parents = await parentsOf(segments, planned, context);
  const { name, definition } = await readDefinition(declared, parents, context);
  const { warehouse } = parents[0].spec;
  await requireUnreserved('tables', name, warehouse, context);
  const path = [...segments, segment('tables', renamedFrom ?? name)] as const;
  const chain = await context.catalog.find(path);
  if (!chain) {
    await requireReplicas(definition.replicationNum, warehouse, context);
    await checkNewDefaults(definition, undefined, warehouse, context);
    return done({ name, definition: definitionFields(definition), undeclaredColumns: [] });
  }
  await requirePrivilege('read', path, context);
  const { next, undeclaredColumns, cost } = await changeTo(chain, definition, { renamedColumns, keepColumns }, context);
  const table = await render(pathOfTable(chain), chain, context, tableRecordOf);
  return done({ name, definition: definitionFields(next), undeclaredColumns, cost, table });
};

/** `planned`: the warehouse of a catalog in which the database will be created. Throws OBJECT_NOT_FOUND, FORBIDDEN and INVALID_PARAMETER. */
async function parentsOf(
  segments: ParentPath,
  planned: string | undefined,
  context: Context,
): Promise<DefinitionParents> {
  if (planned === undefined) return context.catalog.require(segments);
  const existing = await context.catalog.find(segments);
  if (existing) return existing;
  const [root, database] = segments;
  const [catalog] = (await context.catalog.find([root])) ?? [];
  if (catalog) return [catalog, database];
  await requireWarehouse(planned, context);
  return [{ name: root.name, spec: { warehouse: planned } }, database];
}

async function checkNewDefaults(
  next: TableSpec,
  before: TableSpec | undefined,
  warehouse: string,
  { warehouses }: Context,
): Promise<void> {
  if (next.columns.every(({ defaultValue }) => defaultValue === undefined)) return;
  await checkDefaults(next.columns, before?.columns ?? [], await warehouses.use(warehouse));
}

interface Comparing {
  readonly renamedColumns: Readonly<Record<string, string>>;
  readonly keepColumns: boolean;
}

async function changeTo(chain: TableChain, definition: TableSpec, options: Comparing, context: Context) {
  const [root, , table] = chain;
  const { warehouse } = root.spec;
  const engine = await context.warehouses.engineOf(warehouse);
  const { renamed, renames } = renamedIn(table.spec, options.renamedColumns);
  const declaredNames = new Set(definition.columns.map((column) => column.name));
  const undeclared = renamed.columns.filter((column) => !declaredNames.has(column.name)).map((column) => column.name);
  const body = { columns: bodyOf(definition).columns, unique_key_constraints: definition.uniqueKey };
  const columns = options.keepColumns ? merged(bodyOf(renamed).columns, body.columns) : body.columns;
  const changed = patchedSpec({ ...body, columns }, { ...table, spec: renamed }, engine, context);
  await checkNewDefaults(changed, renamed, warehouse, context);
  const change = alterationOf(chain, changed, renames, context);
  const cost: ChangeCost | 'none' =
    change === undefined ? 'none' : await (await context.warehouses.use(warehouse)).cost(change);
  // What no table can change is shown as it is declared.
  const { primaryKey, orderBy, partitionBy, distribution, replicationNum } = definition;
  const next = { ...changed, primaryKey, orderBy, partitionBy, distribution, replicationNum };
  return { next: { ...next, columns: withKeysNotNull(next.columns, primaryKey) }, undeclaredColumns: undeclared, cost };
}

/** Renames those columns that the table still has under their old names. */
function renamedIn(spec: TableSpec, renamedColumns: Comparing['renamedColumns']) {
  const has = (name: string): boolean => spec.columns.some((column) => column.name === name);
  const renames = Object.entries(renamedColumns).filter(([from, to]) => has(from) && !has(to));
  return {
    renamed: renames.reduce((renamed, [from, to]) => withColumnRenamed(renamed, from, to), spec),
    renames: Object.fromEntries(renames),
  };
}

/** Those of `wanted`, and in between the others of `present`, each after the column that it is after now. */
function merged<C extends { readonly name: string }>(present: readonly C[], wanted: readonly C[]): C[] {
  const names = new Set(wanted.map(({ name }) => name));
  const columns = [...wanted];
  for (const [i, column] of present.entries()) {
    if (names.has(column.name)) continue;
    const previous = present[i - 1]?.name;
    columns.splice(columns.findIndex(({ name }) => name === previous) + 1, 0, column);
  }
  return columns;
}
