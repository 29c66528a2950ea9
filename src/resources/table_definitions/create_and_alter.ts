// Creates tables and changes their columns, for all endpoints that do so.

import type { PropertiesPatch } from '../../api/fields.ts';
import type { ParentSegmentsOf, SegmentsOf } from '../../api/handlers.ts';
import type { ColumnBody, DefinitionBody, Distribution } from '../../api/tables/table_fields.ts';
import type { tablesApi } from '../../api/tables/tables.ts';
import { checkName } from '../../catalog/changes/object_names.ts';
import type { CatalogObject, ChainOf, CreateRequest } from '../../catalog/object.ts';
import type { Change } from '../../engines/port/changes.ts';
import type { Engine } from '../../engines/port/engine.ts';
import type { TableRef } from '../../engines/port/refs.ts';
import { foldName } from '../../model/names.ts';
import type { ColumnSpec, TableSpec } from '../../model/records.ts';
import { formatType, widens } from '../../model/types.ts';
import type { Accepted } from '../../standard/endpoint.ts';
import {
  Failure,
  invalidParameter,
  objectNotFound,
  type Violation,
  violationsFailure,
  violationsOf,
} from '../../standard/failure.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import type { Static } from '../../standard/type.ts';
import { defined, describe, dottedNames, requireSameName } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';
import { newOwner, ownerId, requireUnreserved } from '../records/permissions.ts';
import type { TaskOptions } from '../records/task_fields.ts';
import { acceptedTask } from '../records/task_record.ts';
import {
  bodyOf,
  checkDefaults,
  columnBodyOf,
  columnSpec,
  definitionOf,
  definitionViolations,
  requireKeys,
  requireNoViolations,
  tableSpec,
  usesOf,
  withColumnRenamed,
  withKeysNotNull,
} from './table_definition.ts';

export type TablePath = SegmentsOf<typeof tablesApi>;
export type ParentPath = ParentSegmentsOf<typeof tablesApi>;
export type TableChain = ChainOf<TablePath>;
export type ParentChain = ChainOf<ParentPath>;
/** What a definition depends on of the catalog and the database that contain the table. */
export type DefinitionParents = readonly [Named & { readonly spec: Pick<ParentChain[0]['spec'], 'warehouse'> }, Named];

export interface CreateTableBody {
  readonly name?: string;
  readonly sql?: string;
  readonly columns?: readonly ColumnBody[];
  readonly comment?: string | null;
  readonly properties?: PropertiesPatch | null;
  readonly owner?: string;
  readonly primaryKey?: readonly string[] | null;
  readonly orderBy?: readonly string[] | null;
  readonly partitionBy?: readonly string[] | null;
  readonly distribution?: Static<typeof Distribution> | null;
  readonly replicationNum?: number;
  readonly unique_key_constraints?: readonly string[] | null;
}

type Named = Pick<CatalogObject, 'name'>;

export function tableRef([{ id, name }, database, table]: readonly [ParentChain[0], Named, Named]): TableRef {
  return { catalog: { id, name }, database: database.name, table: table.name };
}

export const pathOfTable = ([root, database, table]: readonly [Named, Named, Named]) =>
  [segment('catalogs', root.name), segment('databases', database.name), segment('tables', table.name)] as const;

/** The path of the table that contains the addressed object. */
export const tablePathIn = ([root, database, table]: readonly [...TablePath, ...Segment[]]): TablePath => [
  root,
  database,
  table,
];

export async function createTable(
  parents: ParentPath,
  body: CreateTableBody,
  ifExists: 'fail' | 'return',
  context: Context,
) {
  const chain = await context.catalog.require(parents);
  const { name, definition } = await readDefinition(body, chain, context);
  return makeTable(chain, name, describe(definition, body), body.owner, ifExists, context);
}

export async function copyTable(path: TablePath, toParents: ParentPath, newName: string, context: Context) {
  const chain = await context.catalog.require(path);
  const to = await context.catalog.require(toParents);
  return makeTable(to, newName, await copiedSpec(chain, to, context), undefined, 'fail', context);
}

/** The definition of a copied table. */
export async function copiedSpec(
  [, , { spec }]: TableChain,
  [root]: ParentChain,
  context: Context,
): Promise<TableSpec> {
  const { warehouse } = root.spec;
  // The copy may be in another cluster.
  const replicationNum = (await context.warehouses.layoutOf(warehouse))?.replicaCount ?? spec.replicationNum;
  const copy = tableSpec({ ...bodyOf(spec), replicationNum }, await context.warehouses.engineOf(warehouse));
  return { ...copy, ...defined({ comment: spec.comment, properties: spec.properties }) };
}

/** The name and the definition of a table that a body describes. Throws INVALID_PARAMETER, SQL_INVALID and SQL_NOT_SUPPORTED. */
export async function readDefinition(
  body: Omit<CreateTableBody, 'comment' | 'properties' | 'owner'>,
  [root, database]: DefinitionParents,
  context: Context,
) {
  const { warehouse } = root.spec;
  const engine = await context.warehouses.engineOf(warehouse);
  const replicationNum = body.replicationNum ?? (await defaultReplicas(warehouse, context));
  if (body.sql !== undefined && body.columns !== undefined)
    throw invalidParameter('/columns', 'exclusive', 'is already given by `sql`');
  if (body.sql === undefined) {
    if (body.columns === undefined) throw invalidParameter('/columns', 'required', 'is required, or `sql`');
    if (body.name === undefined) throw invalidParameter('/name', 'required', 'is required');
    const definition = tableSpec({ ...body, columns: body.columns, replicationNum }, engine);
    return { name: body.name, definition };
  }
  const parsed = await (await context.warehouses.use(warehouse)).parseCreateTable(body.sql);
  requireSameName('catalog', parsed.catalog, root.name);
  requireSameName('database', parsed.database, database.name);
  requireSameName('table', parsed.table, body.name);
  const { definition } = parsed;
  const columns = definition.columns.map((column) => ({
    name: column.name,
    type: formatType(column.type),
    nullable: column.nullable,
    ...defined({ defaultValue: column.defaultValue }),
  }));
  const merged: DefinitionBody = {
    ...body,
    replicationNum,
    columns,
    primaryKey: body.primaryKey ?? definition.primaryKey,
    unique_key_constraints: body.unique_key_constraints ?? definition.uniqueKey,
  };
  return { name: body.name ?? parsed.table, definition: tableSpec(merged, engine) };
}

async function makeTable(...of: Parameters<typeof tableRequest>): Promise<{ chain: TableChain; isNew: boolean }> {
  const [[root, database], , , , , context] = of;
  const { object, created } = await context.catalog.create(await tableRequest(...of));
  return { chain: [root, database, object], isNew: created };
}

type TableCreation = CreateRequest<TableSpec> & {
  readonly task?: undefined;
  readonly change: Extract<Change, { kind: 'createTable' }>;
};

/** Throws if the requested table is invalid. */
export async function tableRequest(
  [root, database]: ParentChain,
  name: string,
  spec: TableSpec,
  owner: string | undefined,
  ifExists: 'fail' | 'return',
  context: Context,
): Promise<TableCreation> {
  const { warehouse } = root.spec;
  await requireReplicas(spec.replicationNum, warehouse, context);
  await requireUnreserved('tables', name, warehouse, context);
  if (spec.columns.some((column) => column.defaultValue !== undefined)) {
    await checkDefaults(spec.columns, [], await context.warehouses.use(warehouse));
  }
  const table = { catalog: { id: root.id, name: root.name }, database: database.name, table: name };
  return {
    parent: database,
    category: 'tables',
    name,
    spec,
    owner: ownerId(owner, context),
    principal: context.call.actor,
    ifExists,
    sharesNames: ['views'],
    warehouse,
    change: { kind: 'createTable', table, definition: definitionOf(spec) },
    undo: { kind: 'dropTable', table },
  };
}

/** A table has as many replicas as the cluster of its warehouse is set up for; 1 without a cluster. */
export const defaultReplicas = async (
  warehouse: string,
  { warehouses }: Pick<Context, 'warehouses'>,
): Promise<number> => (await warehouses.layoutOf(warehouse))?.replicaCount ?? 1;

export async function requireReplicas(needed: number, warehouse: string, context: Context): Promise<void> {
  const layout = await context.warehouses.layoutOf(warehouse);
  if (layout && needed !== layout.replicaCount) {
    const message = `must be ${layout.replicaCount}: the cluster of the warehouse has so many replicas of each tablet`;
    throw invalidParameter('/replicationNum', 'cluster', message);
  }
  const available = await context.warehouses.availableReplicas(warehouse);
  if (needed <= available) return;
  const message = `the table requires ${needed} replicas, but only ${available} backends are available`;
  throw new Failure('NOT_ENOUGH_BACKENDS', message, { needed, available });
}

export interface TablePatch {
  readonly comment?: string | null;
  readonly properties?: PropertiesPatch | null;
  readonly owner?: string;
  readonly unique_key_constraints?: readonly string[] | null;
  readonly columns?: readonly ColumnBody[];
}

/** The changes that can be requested of a table. Columns are named as before the change. */
export type TableChange =
  | { readonly kind: 'patch'; readonly body: TablePatch }
  | { readonly kind: 'rename'; readonly newName: string }
  | { readonly kind: 'truncate' }
  | { readonly kind: 'addColumn'; readonly column: ColumnBody }
  | {
      readonly kind: 'changeColumn';
      readonly name: string;
      readonly change: Partial<ColumnBody>;
    }
  | { readonly kind: 'dropColumn'; readonly name: string }
  | { readonly kind: 'renameColumn'; readonly name: string; readonly newName: string };

export type TableChanged =
  | { readonly chain: TableChain; readonly accepted?: undefined }
  | { readonly accepted: Accepted<'alter_table'>; readonly chain?: undefined };

/** Reads the table, computes the new definition, and submits the change to the catalog. */
export async function changeTable(
  path: TablePath,
  change: TableChange,
  context: Context,
  options: TaskOptions = {},
): Promise<TableChanged> {
  const chain = await context.catalog.require(path);
  const [root, database, table] = chain;
  const { warehouse } = root.spec;
  const next = await pointingIntoRequest(change, () => nextSpec(change, table, warehouse, context));
  const engineChange = engineChangeOf(change, chain, next, context);
  if (!engineChange && options.after?.length)
    throw invalidParameter(
      '/after',
      'task',
      'applies only to changes that run as a task; this change affects only the record',
    );
  if (engineChange && next.columns.some((column) => column.defaultValue !== undefined)) {
    const engine = await context.warehouses.use(warehouse);
    await pointingIntoRequest(change, () => checkDefaults(next.columns, table.spec.columns, engine));
  }
  const outcome = await context.catalog.update<TableSpec>(table, {
    spec: next,
    principal: context.call.actor,
    ...(change.kind === 'rename' ? { name: change.newName, sharesNames: ['views'] } : {}),
    ...(change.kind === 'patch'
      ? {
          owner: await newOwner(change.body.owner, path, context),
        }
      : {}),
    ...(engineChange
      ? {
          warehouse,
          change: engineChange,
          task: { type: 'alter_table', target: uriOf(context.call.version, path), request: change, ...options },
        }
      : {}),
  });
  if (outcome.taskId !== undefined) return { accepted: await acceptedTask(outcome.taskId, 'alter_table', context) };
  return { chain: [root, database, outcome.object] };
}

/** A change of a single column has its fields at the top: violations of the definition of the table point there. */
async function pointingIntoRequest<T>(change: TableChange, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isOfColumn = change.kind === 'addColumn' || change.kind === 'changeColumn';
    if (!(error instanceof Failure) || !isOfColumn) throw error;
    const moved = violationsOf(error).map((violation) => ({
      ...violation,
      pointer: violation.pointer.replace(/^\/columns(?:\/\d+)?/, ''),
    }));
    const [was, is] = [violationsOf(error)[0]?.pointer, moved[0]?.pointer];
    if (is === undefined) throw error;
    const text = error.message.replace(`${was}: `, is === '' ? '' : `${is}: `);
    throw violationsFailure(error.code, text, moved);
  }
}

function engineChangeOf(change: TableChange, chain: TableChain, next: TableSpec, context: Context): Change | undefined {
  const ref = tableRef(chain);
  const definition = definitionOf(chain[2].spec);
  if (change.kind === 'rename') return { kind: 'renameTable', table: ref, newName: change.newName, definition };
  if (change.kind === 'truncate') return { kind: 'truncateTable', table: ref };
  const renamedColumns = change.kind === 'renameColumn' ? { [change.name]: change.newName } : {};
  return alterationOf(chain, next, renamedColumns, context);
}

/** Undefined if the engine has nothing to do. */
export function alterationOf(
  chain: TableChain,
  next: TableSpec,
  renamedColumns: Readonly<Record<string, string>>,
  { access, call }: Pick<Context, 'access' | 'call'>,
): Change | undefined {
  const ref = tableRef(chain);
  const [from, to] = [definitionOf(chain[2].spec), definitionOf(next)];
  if (JSON.stringify(from) === JSON.stringify(to)) return undefined;
  const hidesRows = !access.authorizer.isVisible(call.principal, 'read', 'catalogs', chain);
  return { kind: 'alterTable', table: ref, from, to, renamedColumns, hidesRows };
}

async function nextSpec(
  change: TableChange,
  table: CatalogObject<TableSpec>,
  warehouse: string,
  context: Context,
): Promise<TableSpec> {
  const { spec } = table;
  const engine = await context.warehouses.engineOf(warehouse);
  switch (change.kind) {
    case 'truncate':
      return spec;
    case 'rename':
      await requireUnreserved('tables', change.newName, warehouse, context);
      return spec;
    case 'patch':
      return patchedSpec(change.body, table, engine, context);
    default: {
      const next = columnChanged(change, table, context);
      requireNoViolations(definitionViolations(next, engine));
      return next;
    }
  }
}

/** The definition after a PATCH. Throws what the PATCH fails with, as far as that is known without the engine. */
export function patchedSpec(
  body: TablePatch,
  table: CatalogObject<TableSpec>,
  engine: Engine,
  context: Context,
): TableSpec {
  const { spec } = table;
  const violations: Violation[] = [];
  const { unique_key_constraints: key } = body;
  const uniqueKey = key === undefined ? spec.uniqueKey : (key ?? []);
  let { columns } = spec;
  if (body.columns !== undefined) {
    const before = new Map(spec.columns.map((column) => [column.name, column]));
    const retainedNames = new Set(body.columns.map((column) => column.name));
    for (const column of spec.columns)
      if (!retainedNames.has(column.name)) requireUnused(column.name, { ...spec, uniqueKey });
    columns = body.columns.map((fields, i) => {
      const was = before.get(fields.name);
      return touched(was, columnSpec(fields, `/columns/${i}`, violations), table, context);
    });
  }
  const next = describe({ ...spec, uniqueKey, columns: withKeysNotNull(columns, spec.primaryKey) }, body);
  requireNoViolations(violations);
  requireKeys(next, engine);
  requireNoViolations(definitionViolations(next, engine));
  return next;
}

type ColumnChange = Exclude<TableChange, { kind: 'patch' | 'rename' | 'truncate' }>;

function columnChanged(change: ColumnChange, table: CatalogObject<TableSpec>, context: Context): TableSpec {
  const { spec } = table;
  if (change.kind === 'addColumn') {
    const violations: Violation[] = [];
    const column = columnSpec(change.column, '', violations);
    requireNoViolations(violations);
    requireFreeColumnName(column.name, spec);
    return { ...spec, columns: [...spec.columns, touched(undefined, column, table, context)] };
  }
  const column = spec.columns.find((candidate) => candidate.name === change.name);
  if (!column) throw columnMissing(change.name);
  switch (change.kind) {
    case 'dropColumn':
      requireUnused(change.name, spec);
      if (spec.columns.length === 1)
        throw new Failure('CHANGE_NOT_SUPPORTED', 'a table must keep at least one column; delete the table instead');
      return { ...spec, columns: spec.columns.filter((candidate) => candidate !== column) };
    case 'renameColumn': {
      requireFreeColumnName(change.newName, { columns: spec.columns.filter((candidate) => candidate !== column) });
      const renamed = withColumnRenamed(spec, change.name, change.newName);
      const columns = renamed.columns.map((candidate) =>
        candidate.name === change.newName ? touched(column, candidate, table, context) : candidate,
      );
      return { ...renamed, columns };
    }
    case 'changeColumn': {
      const violations: Violation[] = [];
      const next = columnSpec({ ...columnBodyOf(column), ...change.change }, '', violations);
      requireNoViolations(violations);
      const columns = spec.columns.map((candidate) =>
        candidate === column ? touched(column, next, table, context) : candidate,
      );
      return { ...spec, columns: withKeysNotNull(columns, spec.primaryKey) };
    }
  }
}

export function columnMissing(name: string): Failure {
  return objectNotFound('columns', name, `the table has no column ${JSON.stringify(name)}`);
}

/** The name of a column follows the rules for all names (rest-standard B1). */
function requireFreeColumnName(name: string, { columns }: Pick<TableSpec, 'columns'>): void {
  checkName(name);
  const existing = columns.find((column) => foldName(column.name) === foldName(name));
  if (!existing) return;
  const message = `the table has the column ${JSON.stringify(existing.name)}; names are case-insensitive`;
  throw new Failure('OBJECT_ALREADY_EXISTS', message, { category: 'columns', name: existing.name });
}

function requireUnused(name: string, spec: TableSpec): void {
  const uses = usesOf(name, spec);
  if (uses.length === 0) return;
  throw new Failure('IN_USE', `the column ${JSON.stringify(name)} is used by ${dottedNames(uses)}`, {
    column: name,
    usedBy: uses,
  });
}

/** The new column with its history: a changed column records when and by whom. Narrowing a type is refused. */
function touched(
  was: ColumnSpec | undefined,
  next: ColumnSpec,
  table: CatalogObject<TableSpec>,
  context: Context,
): ColumnSpec {
  const updatedAt = new Date().toISOString();
  const updatedBy = context.call.principal.name;
  if (!was)
    return { ...next, history: { createdAt: updatedAt, createdBy: updatedBy, updatedAt, updatedBy, version: 1 } };
  if (!widens(was.type, next.type)) {
    throw new Failure(
      'CHANGE_NOT_SUPPORTED',
      `${formatType(was.type)} to ${formatType(next.type)} could lose values of ${JSON.stringify(was.name)}; a type can only be widened`,
      { column: was.name, from: formatType(was.type), to: formatType(next.type) },
    );
  }
  const { history, ...before } = was;
  const { history: _none, ...after } = next;
  if (JSON.stringify(sorted(before)) === JSON.stringify(sorted(after))) return was;
  const { createdAt, createdBy } = history ?? table;
  return { ...after, history: { createdAt, createdBy, updatedAt, updatedBy, version: (history?.version ?? 1) + 1 } };
}

const sorted = (object: object) => Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1));
