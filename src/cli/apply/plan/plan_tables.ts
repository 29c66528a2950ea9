// Plans tables: the server compares each definition with the table and says what the change takes. Columns are dropped last, after the views
// that read them were changed.
import { isDeepStrictEqual } from 'node:util';
import { columnsApi } from '../../../api/tables/columns.ts';
import { definitionFields } from '../../../api/tables/table_fields.ts';
import { TabulariumError } from '../../../client/errors.ts';
import { collectionUri, objectUri } from '../files/canonical_uri.ts';
import { type Declaration, type Fields, titleOf } from '../files/declaration.ts';
import { changedFields, newFields, valueText } from './field_changes.ts';
import { type Difference, type Expected, sizeOf } from './plan.ts';
import { type PlanContext, planCreate, planRename } from './plan_objects.ts';

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly defaultValue: string | null;
  readonly comment: string | null;
}

interface Definition extends Readonly<Record<string, unknown>> {
  readonly columns: readonly Column[];
}

interface Comparison {
  readonly definition: Definition;
  readonly undeclaredColumns: readonly string[];
  readonly cost?: 'none' | 'instant' | 'rewrite';
  readonly table?: Fields & Definition;
}

const definitionNames = new Set(['columns', 'sql', ...Object.keys(definitionFields)]);
/** What an update of a table can change of its definition. */
const changeableNames = new Set(['columns', 'unique_key_constraints']);

/** The database of a table or a view. */
export interface ParentNamespace {
  /** It does not exist yet. */
  readonly isNew: boolean;
  /** That will have its rows, if it is new. */
  readonly warehouse?: string | undefined;
}

/** @returns the record that the table has now. */
export async function planTable(
  declaration: Declaration,
  { warehouse }: ParentNamespace,
  context: PlanContext,
): Promise<Fields | undefined> {
  const comparison = await compared(declaration, { keepColumns: true, warehouse }, context);
  if (!comparison) return undefined;
  const { table } = comparison;
  if (!table) {
    planNewTable(declaration, comparison.definition, context);
    return undefined;
  }
  if (table.name !== declaration.path.at(-1))
    planRename(declaration, String(table.name), table, 'rename objects', context);
  const renamed = planColumnRenames(declaration, table, context);
  planAlteration(declaration, comparison, renamed, context);
  await planUndeclaredColumns(declaration, comparison, context);
  return table;
}

/** The definition for the server: without what describes the table, and without hints for this command. */
const definitionOf = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => definitionNames.has(name)));

const descriptionOf = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !definitionNames.has(name)));

/** Undefined if the server refuses the definition or the change, which is then a refusal of the plan. */
async function compared(
  declaration: Declaration,
  options: { readonly keepColumns: boolean; readonly warehouse?: string | undefined },
  { reader, names, builder }: PlanContext,
): Promise<Comparison | undefined> {
  const { kind, path, fields, renamedFrom, renamedColumns } = declaration;
  const collection = collectionUri(kind, names.pathOf(path.slice(0, -1)));
  const body = { ...definitionOf(fields), name: path.at(-1), renamedColumns, ...options };
  const compare = async (request: Fields) =>
    (await reader.compare(collection, request, 'table')) as unknown as Comparison;
  try {
    const comparison = await compare(body);
    if (comparison.table || renamedFrom === undefined || options.warehouse !== undefined) return comparison;
    return await compare({ ...body, renamedFrom });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    refuse(declaration, error, builder);
    return undefined;
  }
}

/** Whether an error is about the definition, not about the server or the rights of the caller. */
export const isRefusal = (error: unknown): error is TabulariumError =>
  error instanceof TabulariumError && error.status === 400;

/** At the field that the server's message is about. */
export function refuse(declaration: Declaration, error: TabulariumError, builder: PlanContext['builder']): void {
  const { violations } = error.result as {
    readonly violations?: readonly { readonly pointer: string; readonly message: string }[];
  };
  const [first] = violations ?? [];
  const place = first ? declaration.placeOf(first.pointer) : declaration.place;
  builder.refuse({ place }, titleOf(declaration), `${error.code}: ${error.message}`);
}

function planNewTable(declaration: Declaration, definition: Definition, context: PlanContext): void {
  const { fields } = declaration;
  const { columns: _, sql, ...declared } = definitionOf(fields);
  const { primaryKey } = definition;
  const key = sql !== undefined && (primaryKey as readonly string[]).length > 0 ? { primaryKey } : {};
  planCreate(declaration, fields, 'tables', context, [
    ...definition.columns.map((column): Difference => ({ sign: '+', field: 'column', to: columnText(column) })),
    ...newFields({ ...key, ...declared, ...descriptionOf(fields) }),
  ]);
}

/** @returns the columns of the table, under their new names. */
function planColumnRenames(declaration: Declaration, table: Fields & Definition, { builder }: PlanContext): Column[] {
  const { kind, path, renamedColumns, place } = declaration;
  const has = (name: string): boolean => table.columns.some((column) => column.name === name);
  return table.columns.map((column) => {
    const newName = renamedColumns[column.name];
    if (newName === undefined || has(newName)) return column;
    const uri = objectUri(kind, path);
    builder.add({
      action: 'rename',
      phase: 'rename columns',
      title: `column ${valueText('name', column.name)} of ${titleOf(declaration)}`,
      place,
      differences: [{ sign: '~', field: 'name', from: valueText('name', column.name), to: valueText('name', newName) }],
      category: columnsApi,
      operation: 'rename',
      uri: `${uri}/${columnsApi.name}/${encodeURIComponent(column.name)}`,
      fields: { newName },
      expected: { key: uri, uri, record: table },
    });
    return { ...column, name: newName };
  });
}

function planAlteration(
  declaration: Declaration,
  { definition, cost, table }: Comparison,
  before: readonly Column[],
  { builder }: PlanContext,
): void {
  const { kind, path, fields, place } = declaration;
  if (!table) return;
  const title = titleOf(declaration);
  const { patch: described, differences: descriptions } = changedFields(kind, descriptionOf(fields), table);
  const columns = columnDifferences(before, definition.columns);
  const keys = keyDifferences(declaration, definition, table);
  for (const { field, from, to } of keys.filter(({ field }) => !changeableNames.has(field)))
    builder.refuse(
      { place: declaration.placeOf(`/${field}`) },
      title,
      `${field} of a table cannot be changed from ${from} to ${to}; copy its rows to a new table, or correct the file`,
    );
  const uniqueKey = keys.filter(({ field }) => changeableNames.has(field));
  const differences = [...columns, ...uniqueKey, ...descriptions];
  if (differences.length === 0) return;
  const uri = objectUri(kind, path);
  const rewrites = cost === 'rewrite' && columns.length + uniqueKey.length > 0;
  builder.add({
    action: rewrites ? 'rewrite' : 'change',
    phase: 'tables',
    title,
    place,
    differences,
    ...(rewrites ? { size: sizeOf(table) } : {}),
    category: kind.category,
    operation: 'update',
    uri,
    fields: {
      ...described,
      ...(columns.length > 0 ? { columns: definition.columns.map(columnBody) } : {}),
      ...(uniqueKey.length > 0 ? { unique_key_constraints: definition.unique_key_constraints } : {}),
    },
    expected: { key: uri, uri, record: table },
  });
}

function columnDifferences(before: readonly Column[], after: readonly Column[]): Difference[] {
  const present = new Map(before.map((column) => [column.name, column]));
  const changes = after.flatMap((column): Difference[] => {
    const was = present.get(column.name);
    if (!was) return [{ sign: '+', field: 'column', to: columnText(column) }];
    if (isDeepStrictEqual(columnBody(was), columnBody(column))) return [];
    return [{ sign: '~', field: 'column', from: columnText(was), to: columnText(column) }];
  });
  const retained = after.filter(({ name }) => present.has(name)).map(({ name }) => name);
  const order = before.map(({ name }) => name).filter((name) => retained.includes(name));
  // A new column is added at the end unless it is declared before one that exists.
  const isMoved =
    !isDeepStrictEqual(order, retained) || after.findLastIndex(({ name }) => present.has(name)) >= retained.length;
  if (isMoved)
    changes.push({
      sign: '~',
      field: 'order of columns',
      from: before.map(({ name }) => name).join(', '),
      to: after.map(({ name }) => name).join(', '),
    });
  return changes;
}

/** Differences of keys, orders and distribution; columns of the table are named as after the renames. */
function keyDifferences({ renamedColumns }: Declaration, definition: Definition, table: Fields): Difference[] {
  const has = (name: string) => (table as unknown as Definition).columns.some((column) => column.name === name);
  const renamed = (name: string): string => {
    const newName = renamedColumns[name];
    return newName === undefined || has(newName) ? name : newName;
  };
  const present = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map((each) => renamed(String(each)));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, present(member)]));
  };
  return Object.keys(definitionFields).flatMap((field): Difference[] => {
    const [from, to] = [present(table[field]), definition[field]];
    return isDeepStrictEqual(from, to)
      ? []
      : [{ sign: '~', field, from: valueText(field, from), to: valueText(field, to) }];
  });
}

/** Drops them with `--prune`; otherwise lists them. */
async function planUndeclaredColumns(
  declaration: Declaration,
  { undeclaredColumns, definition, table }: Comparison,
  context: PlanContext,
): Promise<void> {
  const { builder, prune } = context;
  if (!table || undeclaredColumns.length === 0) return;
  const size = sizeOf(table);
  const title = titleOf(declaration);
  if (!prune) {
    for (const name of undeclaredColumns)
      builder.undeclared.push({ title: `column ${valueText('name', name)} of ${title}`, size });
    return;
  }
  const dropping = await compared(declaration, { keepColumns: false }, context);
  if (!dropping) return;
  const { kind, path, place } = declaration;
  const uri = objectUri(kind, path);
  const expected: Expected = { key: uri, uri, record: table };
  builder.add({
    action: 'drop',
    phase: 'drop columns',
    title: `${undeclaredColumns.length === 1 ? 'a column' : `${undeclaredColumns.length} columns`} of ${title}`,
    place,
    differences: definition.columns
      .filter(({ name }) => undeclaredColumns.includes(name))
      .map((column): Difference => ({ sign: '-', field: 'column', from: columnText(column) })),
    size,
    category: kind.category,
    operation: 'update',
    uri,
    fields: { columns: dropping.definition.columns.map(columnBody) },
    expected,
  });
}

const columnBody = ({ name, type, nullable, defaultValue, comment }: Column) => ({
  name,
  type,
  nullable,
  defaultValue,
  comment,
});

function columnText({ name, type, nullable, defaultValue, comment }: Column): string {
  const parts = [name, type];
  if (nullable === false) parts.push('not null');
  if (defaultValue !== null) parts.push(`default ${String(defaultValue)}`);
  if (comment !== null) parts.push(`comment ${JSON.stringify(comment)}`);
  return parts.join(' ');
}
