// The handlers of `columns` of a table: the same changes as by PATCH of the table, one column at a time.
import { columnsApi } from '../../api/tables/columns.ts';
import type { ObjectOf } from '../../catalog/object.ts';
import { compareNames } from '../../model/names.ts';
import type { ColumnSpec } from '../../model/records.ts';
import { containing, likePattern } from '../../model/text_patterns.ts';
import { formatType, parseType, TypeSyntaxError } from '../../model/types.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { filterInTurns } from '../../store/row_search.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { inMemory, type Page, pageOf } from '../records/list_page.ts';
import { versionOfObject } from '../records/object_records.ts';
import { created, deleted, done, found, updated } from '../records/outcomes.ts';
import { engineStateOf } from '../records/states.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { columnFields } from '../table_definitions/column_record.ts';
import { changeTable, columnMissing, type TablePath, tablePathIn } from '../table_definitions/create_and_alter.ts';

type Table = ObjectOf<'tables'>;

/** A column that was not changed since its table was created has the history of the table. */
function record(column: ColumnSpec, index: number, table: Table, path: TablePath, version: string) {
  const history = column.history ?? {
    createdAt: table.createdAt,
    createdBy: table.createdBy,
    updatedAt: table.createdAt,
    updatedBy: table.createdBy,
    version: 1,
  };
  const uri = uriOf(version, [...path, segment('columns', column.name)]);
  const shown = { ...columnFields(column, index, table.spec), ...engineStateOf(table) };
  return { ...shown, ...history, uri, [objectVersion]: versionOfObject(table) };
}

async function require(path: TablePath, context: Context): Promise<Table> {
  return (await context.catalog.require(path))[2];
}

function show(table: Table, name: string, path: TablePath, context: Context) {
  const index = table.spec.columns.findIndex((column) => column.name === name);
  const column = table.spec.columns[index];
  return column && record(column, index, table, path, context.call.version);
}

function requireShown(table: Table, name: string, path: TablePath, context: Context) {
  const shown = show(table, name, path, context);
  if (!shown) throw columnMissing(name);
  return shown;
}

/** Columns ordered by name, from after a name, as in every list. */
async function columnsPage(
  table: Table,
  page: Page,
  path: TablePath,
  context: Context,
  fits: (column: ColumnSpec) => boolean,
) {
  const rest = table.spec.columns
    .map((column, index) => ({ column, index, name: column.name }))
    .filter(({ name }) => page.after === undefined || compareNames(name, page.after) > 0);
  const textBytes = ({ column: { name, comment = '' } }: (typeof rest)[number]) => name.length + comment.length;
  const columns = await filterInTurns(rest, textBytes, ({ column }) => fits(column));
  columns.sort((a, b) => compareNames(a.name, b.name));
  return pageOf(page, 'name', inMemory(columns), ({ column, index }) =>
    record(column, index, table, path, context.call.version),
  );
}

function canonicalType(text: string): string {
  try {
    return formatType(parseType(text));
  } catch (error) {
    if (error instanceof TypeSyntaxError) throw invalidParameter('/type', 'type', error.message);
    throw error;
  }
}

export const columns = implement(columnsApi, {
  list: async ({ segments, page }, context) =>
    columnsPage(await require(segments, context), page, segments, context, () => true),
  get: async ({ segments, path: { column } }, context) => {
    const path = tablePathIn(segments);
    return found(requireShown(await require(path, context), column, path, context));
  },
  create: async ({ segments: path, body, ifExists }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const { name } = request;
    const existing = show(await require(path, context), name, path, context);
    if (existing && ifExists === 'return') return created(existing, false);
    const outcome = await changeTable(path, { kind: 'addColumn', column: request }, context, options).catch(
      async (error: unknown) => {
        // A concurrent PUT of the same column was first.
        const now = ifExists === 'return' ? show(await require(path, context), name, path, context) : undefined;
        if (now && error instanceof Failure && error.code === 'OBJECT_ALREADY_EXISTS') return { now };
        throw error;
      },
    );
    if ('now' in outcome) return created(outcome.now, false);
    if (outcome.accepted) return outcome.accepted;
    return created(requireShown(outcome.chain[2], name, path, context), true);
  },
  update: async ({ segments, path: { column: name }, body }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const path = tablePathIn(segments);
    const outcome = await changeTable(path, { kind: 'changeColumn', name, change: request }, context, options);
    if (outcome.accepted) return outcome.accepted;
    return updated(requireShown(outcome.chain[2], name, path, context));
  },
  delete: async ({ segments, path: { column: name } }, context) => {
    const path = tablePathIn(segments);
    const chain = await context.catalog.find(path);
    if (!chain || !show(chain[2], name, path, context)) return deleted(false);
    const outcome = await changeTable(path, { kind: 'dropColumn', name }, context);
    if (outcome.accepted) return outcome.accepted;
    return deleted(true);
  },
  rename: async ({ segments, path: { column: name }, body }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const { newName } = request;
    const path = tablePathIn(segments);
    const outcome = await changeTable(path, { kind: 'renameColumn', name, newName }, context, options);
    if (outcome.accepted) return outcome.accepted;
    return done(requireShown(outcome.chain[2], newName, path, context));
  },
  search: async ({ segments, body, page }, context) => {
    const name = body.namePattern === undefined ? undefined : likePattern(body.namePattern);
    const type = body.type === undefined ? undefined : canonicalType(body.type);
    const comment = body.comment === undefined ? undefined : containing(body.comment);
    return columnsPage(
      await require(segments, context),
      page,
      segments,
      context,
      (column) =>
        (name === undefined || name(column.name)) &&
        (type === undefined || formatType(column.type) === type) &&
        (comment === undefined || comment(column.comment ?? '')),
    );
  },
});
