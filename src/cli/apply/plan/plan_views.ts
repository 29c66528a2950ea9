// Plans views. A view that reads something that is renamed cannot stay while it is renamed: it is dropped before and created again after.
import { collectionUri } from '../files/canonical_uri.ts';
import { type Declaration, type Fields, type Place, recordTitle } from '../files/declaration.ts';
import { kindNamed } from '../files/kinds.ts';
import { changedFields, newFields } from './field_changes.ts';
import { type PlanContext, planCreate, planRename, planUpdate } from './plan_objects.ts';
import { isRefusal, refuse } from './plan_tables.ts';

export interface ComparedView {
  readonly declaration: Declaration;
  /** The query that it will have. */
  readonly sql: string;
  /** The view as it is now. */
  readonly record: Fields | undefined;
}

const queryText = (sql: unknown): string =>
  String(sql)
    .trim()
    .replace(/[;\s]+$/, '');

/** Undefined if the server refuses the statement, which is then a refusal of the plan. `isNew`: its database does not exist yet. */
export async function compareView(
  declaration: Declaration,
  isNew: boolean,
  { reader, names, builder }: PlanContext,
): Promise<ComparedView | undefined> {
  const { kind, path, renamedFrom } = declaration;
  const sql = queryText(declaration.fields.sql);
  if (isNew) return { declaration, sql, record: undefined };
  const collection = collectionUri(kind, names.pathOf(path.slice(0, -1)));
  const body = { name: path.at(-1), sql };
  try {
    let result = await reader.compare(collection, body, 'view');
    if (!result.view && renamedFrom !== undefined)
      result = await reader.compare(collection, { ...body, renamedFrom }, 'view');
    return { declaration, sql: queryText(result.sql), record: result.view as Fields | undefined };
  } catch (error) {
    if (!isRefusal(error)) throw error;
    refuse(declaration, error, builder);
    return undefined;
  }
}

export interface ViewPlan {
  /** The URIs of views that are dropped and created again: their grants end with them. */
  readonly recreated: readonly string[];
}

/**
 * `views`: in the order in which they can be created. `undeclared`: records of the other views of the databases.
 * `affected`: the URIs of what is renamed, and of tables of which columns are renamed, as they are now. `place`: of their declarations.
 */
export function planViews(
  views: readonly ComparedView[],
  undeclared: readonly Fields[],
  affected: readonly string[],
  place: Place,
  context: PlanContext,
): ViewPlan {
  const { builder, prune } = context;
  const present = [...views.flatMap(({ record }) => (record ? [record] : [])), ...undeclared];
  const moving = readersOf(present, affected);
  const dropped = inDropOrder(
    present.filter((record) => moving.has(String(record.uri)) || (prune && undeclared.includes(record))),
  );
  for (const record of dropped) {
    const own = views.find((view) => view.record === record);
    if (own || prune) planDrop(record, own, context);
  }
  if (!prune)
    for (const record of undeclared.filter(({ uri }) => moving.has(String(uri))))
      builder.refuse(
        { place },
        recordTitle(record, 'view'),
        'it is not declared and reads what is renamed: declare it, or drop it with --prune',
      );
  for (const view of views) planView(view, moving, context);
  return {
    recreated: views.flatMap(({ record }) => (record && moving.has(String(record.uri)) ? [String(record.uri)] : [])),
  };
}

function planDrop(record: Fields, own: ComparedView | undefined, { builder }: PlanContext): void {
  const kind = own?.declaration.kind ?? kindNamed('view');
  const uri = String(record.uri);
  builder.add({
    action: 'drop',
    phase: 'drop views',
    title: recordTitle(record, 'view'),
    place: own?.declaration.place,
    differences: own
      ? [{ sign: '~', field: 'view', to: 'created again below, because it reads or is in what is renamed' }]
      : [{ sign: '-', field: 'sql', from: queryText(record.sql) }],
    category: kind.category,
    operation: 'delete',
    uri,
    fields: {},
    expected: { key: uri, uri, record },
  });
}

function planView({ declaration, sql, record }: ComparedView, moving: ReadonlySet<string>, context: PlanContext): void {
  const { kind, path } = declaration;
  const fields = { ...declaration.fields, sql };
  if (!record || moving.has(String(record.uri))) {
    planCreate(declaration, fields, 'views', context, newFields({ ...fields, sql }));
    return;
  }
  if (record.name !== path.at(-1)) planRename(declaration, String(record.name), record, 'rename objects', context);
  const { patch, differences } = changedFields(kind, fields, { ...record, sql: queryText(record.sql) });
  planUpdate(declaration, { patch, differences, record, phase: 'views' }, context);
}

const isWithin = (uri: string, above: string): boolean => uri === above || uri.startsWith(`${above}/`);

/** The views that are in something that is renamed, or read it, directly or through other views. */
function readersOf(views: readonly Fields[], affected: readonly string[]): Set<string> {
  const found = new Set<string>();
  for (let isGrowing = true; isGrowing; ) {
    isGrowing = false;
    for (const { uri, dependsOn } of views) {
      const own = String(uri);
      if (found.has(own)) continue;
      const sources = dependsOn as readonly string[];
      const isIn = affected.some((each) => own !== each && isWithin(own, each));
      const reads = sources.some((source) => found.has(source) || affected.some((each) => isWithin(source, each)));
      if (!isIn && !reads) continue;
      found.add(own);
      isGrowing = true;
    }
  }
  return found;
}

/** Each view before those that it reads. */
function inDropOrder(views: readonly Fields[]): Fields[] {
  const ordered = new Set<Fields>();
  const visit = (view: Fields): void => {
    if (ordered.has(view)) return;
    for (const reader of views) if ((reader.dependsOn as readonly string[]).includes(String(view.uri))) visit(reader);
    ordered.add(view);
  };
  for (const view of views) visit(view);
  return [...ordered];
}
