// Makes the plan: compares everything that is declared with what the server has, from the top of the namespace down.
import { defaultWarehouseName } from '../../../api/namespaces/catalogs.ts';
import { collectionUri, objectUri } from '../files/canonical_uri.ts';
import { type Declaration, type Fields, recordTitle, titleOf } from '../files/declaration.ts';
import { endpointOf, isOfKind, type Kind, type KindName, kindNamed } from '../files/kinds.ts';
import { type Phase, type Plan, PlanBuilder, type Size, sizeOf, totalSize } from './plan.ts';
import { planGrants } from './plan_grants.ts';
import { type PlanContext, planObject } from './plan_objects.ts';
import { type ParentNamespace, planTable } from './plan_tables.ts';
import { type ComparedView, compareView, planViews } from './plan_views.ts';
import { PresentNames } from './present_names.ts';
import { inParallel, type ServerReader } from './server_reader.ts';

export interface PlanOptions {
  readonly prune: boolean;
}

/** Throws TabulariumError if the server cannot be read. */
export async function makePlan(
  declarations: readonly Declaration[],
  reader: ServerReader,
  { prune }: PlanOptions,
): Promise<Plan> {
  const builder = new PlanBuilder();
  const context: PlanContext = { reader, builder, names: new PresentNames(), prune };
  const declared = (name: KindName) => declarations.filter((each) => isOfKind(each, name));
  const namespaces = new Namespaces(context);
  await namespaces.plan(declared('catalog'), { change: 'catalogs', rename: 'rename catalogs' });
  await namespaces.plan(declared('database'), { change: 'databases', rename: 'rename databases' });
  const tables = await planTables(declared('table'), namespaces, context);
  const recreated = await planAllViews(
    { views: declared('view'), databases: declared('database') },
    tables,
    namespaces,
    context,
  );
  await planUndeclaredTables(declared('database'), tables, namespaces, context);
  await planUndeclaredDatabases(declared('catalog'), declared('database'), namespaces, context);
  for (const role of declared('role')) await planObject(role, { change: 'roles', rename: 'rename objects' }, context);
  await planGrants(declarations, recreated, context);
  await inParallel(declared('schedule'), (each) =>
    planObject(each, { change: 'schedules', rename: 'rename objects' }, context),
  );
  return builder.built();
}

const keyOf = (path: readonly string[]): string => JSON.stringify(path);

/** Of a catalog: its record, or the fields of the request that creates it. */
const warehouseOf = ({ warehouse = defaultWarehouseName }: Fields): string => String(warehouse);

/** Which catalogs and databases exist, and which will. */
class Namespaces {
  readonly #context: PlanContext;
  readonly #states = new Map<string, Promise<'exists' | 'planned' | 'missing'>>();
  /** Of the catalogs that exist or are declared. */
  readonly #warehouses = new Map<string, string>();
  /** The URIs of those that are renamed, as they are now. */
  readonly renamed: string[] = [];

  constructor(context: PlanContext) {
    this.#context = context;
  }

  async plan(declarations: readonly Declaration[], phase: Parameters<typeof planObject>[1]): Promise<void> {
    for (const declaration of declarations) {
      const { path, kind } = declaration;
      const above = path.slice(0, -1);
      if (above.length > 0 && !(await this.#requireParent(declaration))) continue;
      const read = await planObject(declaration, phase, this.#context);
      if (above.length === 0) this.#warehouses.set(keyOf(path), warehouseOf(read?.record ?? declaration.fields));
      this.#states.set(keyOf(path), Promise.resolve(read ? 'exists' : 'planned'));
      if (read && read.record.name !== path.at(-1)) this.renamed.push(this.#context.names.uriOf(kind, path));
    }
  }

  /** The namespace of an object; undefined if it neither exists nor is declared, which is refused. */
  async parentOf(declaration: Declaration): Promise<ParentNamespace | undefined> {
    const state = await this.#requireParent(declaration);
    if (state === undefined) return undefined;
    if (state === 'exists') return { isNew: false };
    const root = declaration.path.slice(0, 1);
    await this.stateOf(root);
    return { isNew: true, warehouse: this.#warehouses.get(keyOf(root)) };
  }

  stateOf(path: readonly string[]): Promise<'exists' | 'planned' | 'missing'> {
    const key = keyOf(path);
    const known = this.#states.get(key);
    if (known) return known;
    const kind: Kind = kindNamed(path.length === 1 ? 'catalog' : 'database');
    const { reader, names } = this.#context;
    const read = reader.get(names.uriOf(kind, path)).then((found) => {
      if (found && path.length === 1) this.#warehouses.set(key, warehouseOf(found.record));
      return found ? ('exists' as const) : ('missing' as const);
    });
    this.#states.set(key, read);
    return read;
  }

  async #requireParent(declaration: Declaration): Promise<'exists' | 'planned' | undefined> {
    const above = declaration.path.slice(0, -1);
    const state = await this.stateOf(above);
    if (state !== 'missing') return state;
    const parent = declaration.kind.ancestors.at(-1)?.singular ?? 'object';
    const message = `there is no ${parent} ${above.map((name) => JSON.stringify(name)).join('.')}; declare it with \`kind: ${parent}\`, or correct the name`;
    this.#context.builder.refuse(declaration, titleOf(declaration), message);
    return undefined;
  }
}

interface PlannedTables {
  /** The URIs of the tables that are declared, as they are now. */
  readonly uris: ReadonlySet<string>;
  /** Of those that are renamed, or have renamed columns. */
  readonly renamed: readonly string[];
}

async function planTables(
  declarations: readonly Declaration[],
  namespaces: Namespaces,
  context: PlanContext,
): Promise<PlannedTables> {
  const records = await inParallel(declarations, async (declaration) => {
    const parent = await namespaces.parentOf(declaration);
    const record = parent && (await planTable(declaration, parent, context));
    return record ? [{ declaration, record }] : [];
  });
  const renamed = records.flat().filter(({ declaration, record }) => {
    const columns = record.columns as readonly { readonly name: string }[];
    const has = (name: string) => columns.some((column) => column.name === name);
    const hasNewColumns = Object.entries(declaration.renamedColumns).some(([from, to]) => has(from) && !has(to));
    return hasNewColumns || record.name !== declaration.path.at(-1);
  });
  return {
    uris: new Set(records.flat().map(({ record }) => String(record.uri))),
    renamed: renamed.map(({ record }) => String(record.uri)),
  };
}

/** The paths of the declared databases that exist. */
async function existingOf(databases: readonly Declaration[], namespaces: Namespaces): Promise<readonly Declaration[]> {
  const states = await inParallel(databases, ({ path }) => namespaces.stateOf(path));
  return databases.filter((_each, i) => states[i] === 'exists');
}

/** @returns the present URIs of the views that are created again. */
async function planAllViews(
  {
    views: declarations,
    databases,
  }: { readonly views: readonly Declaration[]; readonly databases: readonly Declaration[] },
  tables: PlannedTables,
  namespaces: Namespaces,
  context: PlanContext,
): Promise<readonly string[]> {
  const { names, reader, builder, prune } = context;
  const compared = await inParallel(declarations, async (declaration) => {
    const parent = await namespaces.parentOf(declaration);
    return parent && compareView(declaration, parent.isNew, context);
  });
  const views = compared.filter((view): view is ComparedView => view !== undefined);
  const declared = new Set(views.map(({ record }) => record?.uri));
  const present = await inParallel(await existingOf(databases, namespaces), ({ path }) =>
    reader.list(collectionUri(kindNamed('view'), names.pathOf(path))),
  );
  const undeclared = present.flat().filter(({ uri }) => !declared.has(uri));
  if (!prune) for (const record of undeclared) builder.undeclared.push({ title: recordTitle(record, 'view') });
  const renamedViews = views.flatMap(({ declaration, record }) =>
    record && record.name !== declaration.path.at(-1) ? [String(record.uri)] : [],
  );
  const affected = [...tables.renamed, ...namespaces.renamed, ...renamedViews];
  const [first] = [...databases, ...declarations];
  return first ? planViews(views, undeclared, affected, first.place, context).recreated : [];
}

async function planUndeclaredTables(
  databases: readonly Declaration[],
  { uris }: PlannedTables,
  namespaces: Namespaces,
  context: PlanContext,
): Promise<void> {
  const kind = kindNamed('table');
  await inParallel(await existingOf(databases, namespaces), async ({ path }) => {
    const records = await context.reader.list(collectionUri(kind, context.names.pathOf(path)));
    for (const record of records.filter(({ uri }) => !uris.has(String(uri)))) {
      const uri = objectUri(kind, [...path, String(record.name)]);
      planUndeclared({ kind, uri, record, size: sizeOf(record), phase: 'drop tables' }, context);
    }
  });
}

/** Databases of declared catalogs, with what is in them. */
async function planUndeclaredDatabases(
  catalogs: readonly Declaration[],
  databases: readonly Declaration[],
  namespaces: Namespaces,
  context: PlanContext,
): Promise<void> {
  const { reader, names } = context;
  const kind = kindNamed('database');
  const declared = new Set(databases.map(({ path }) => names.uriOf(kind, path)));
  await inParallel(await existingOf(catalogs, namespaces), async ({ path }) => {
    const present = await reader.list(collectionUri(kind, names.pathOf(path)));
    for (const record of present.filter(({ uri }) => !declared.has(String(uri)))) {
      const tables = await reader.list(`${String(record.uri)}/${kindNamed('table').category.name}`);
      const uri = objectUri(kind, [...path, String(record.name)]);
      planUndeclared({ kind, uri, record, size: totalSize(tables.map(sizeOf)), phase: 'drop databases' }, context);
    }
  });
}

interface UndeclaredObject {
  readonly kind: Kind;
  /** At the time of the step, after the renames of what is above it. */
  readonly uri: string;
  readonly record: Fields;
  readonly size: Size;
  readonly phase: Phase;
}

function planUndeclared({ kind, uri, record, size, phase }: UndeclaredObject, { builder, prune }: PlanContext): void {
  const title = recordTitle(record, kind.name);
  if (!prune) {
    builder.undeclared.push({ title, size });
    return;
  }
  builder.add({
    action: 'drop',
    phase,
    title,
    differences: [],
    size,
    category: kind.category,
    operation: 'delete',
    uri,
    fields: endpointOf(kind, 'delete').query?.properties.cascade ? { cascade: true } : {},
    expected: { key: uri, uri, record },
  });
}
