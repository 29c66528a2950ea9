// Columns of a table, one at a time: the same changes that a PATCH of the table can make, under the column's own URI.

import { Comment, exampleFields, nullable, recordFields, searchFields } from '../../api/fields.ts';
import { engineState, engineStateExample } from '../../api/states.ts';
import { NewNameByTask, sometimesByTask, taskCodes, taskFields } from '../../api/task_fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { compareNames } from '../../model/names.ts';
import type { ColumnSpec, TableSpec } from '../../model/records.ts';
import { formatType, parseType, TypeSyntaxError } from '../../model/types.ts';
import type { Category, PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { basisOf } from '../../standard/record_version.ts';
import { Type } from '../../standard/type.ts';
import { likePattern } from '../queries/like_pattern.ts';
import { invalid, last } from '../records/fields.ts';
import {
  accepted,
  action,
  basisOfObject,
  type Context,
  create,
  created,
  deleted,
  done,
  found,
  get,
  list,
  listed,
  remove,
  requireTask,
  segment,
  update,
  updated,
} from '../records/handler_context.ts';
import { searchBy } from '../records/search.ts';
import { engineStateOf } from '../records/states.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { columnFieldSchemas, columnFields } from '../table_definitions/column_record.ts';
import { changeTable, columnMissing, type TableChain } from '../table_definitions/create_and_alter.ts';
import { DefaultValue } from '../table_definitions/table_definition.ts';
import { engineCodes, tablePathOf } from './tables.ts';

const ColumnRecord = Type.Object({ ...columnFieldSchemas, ...engineState, ...recordFields });

const changeFields = {
  type: Type.Optional(Type.String({ description: 'A type that holds every value of the old one.' })),
  nullable: Type.Optional(Type.Boolean()),
  defaultValue: Type.Optional(nullable(DefaultValue)),
  comment: Type.Optional(nullable(Comment)),
};

/** A column that was not changed since its table was made has the table's history. */
function record(
  column: ColumnSpec,
  index: number,
  table: CatalogObject<TableSpec>,
  tablePath: readonly Segment[],
  version: string,
) {
  const history = column.history ?? {
    createdAt: table.createdAt,
    createdBy: table.createdBy,
    updatedAt: table.createdAt,
    updatedBy: table.createdBy,
    version: 1,
  };
  const uri = uriOf(version, [...tablePath, segment('columns', column.name)]);
  const shown = { ...columnFields(column, index, table.spec), ...engineStateOf(table) };
  return { ...shown, ...history, uri, [basisOf]: basisOfObject(table) };
}

async function require(path: PathParameters, context: Context) {
  const [, , table] = (await context.catalog.require(tablePathOf(path))) as TableChain;
  return table;
}

function show(table: CatalogObject<TableSpec>, name: string, path: PathParameters, context: Context) {
  const index = table.spec.columns.findIndex((column) => column.name === name);
  const column = table.spec.columns[index];
  return column && record(column, index, table, tablePathOf(path), context.call.version);
}

function requireShown(table: CatalogObject<TableSpec>, name: string, path: PathParameters, context: Context) {
  const shown = show(table, name, path, context);
  if (!shown) throw columnMissing(name);
  return shown;
}

/** Columns in order of name, after a name, as every list is. */
function columnsPage(
  table: CatalogObject<TableSpec>,
  at: { after?: string | undefined; limit: number },
  path: PathParameters,
  context: Context,
  fits: (column: ColumnSpec) => boolean,
) {
  const columns = table.spec.columns
    .map((column, index) => ({ column, index }))
    .filter(({ column }) => (at.after === undefined || compareNames(column.name, at.after) > 0) && fits(column))
    .sort((a, b) => compareNames(a.column.name, b.column.name));
  const shown = columns
    .slice(0, at.limit)
    .map(({ column, index }) => record(column, index, table, tablePathOf(path), context.call.version));
  return listed(shown, columns.length > at.limit ? shown.at(-1)?.name : undefined);
}

function canonicalType(text: string): string {
  try {
    return formatType(parseType(text));
  } catch (error) {
    if (error instanceof TypeSyntaxError) throw invalid('/type', 'type', error.message);
    throw error;
  }
}

const changeCodes = [
  'OBJECT_NOT_FOUND',
  'CHANGE_IN_PROGRESS',
  'CHANGE_NOT_SUPPORTED',
  ...engineCodes,
  ...taskCodes,
] as const;

const byTask = sometimesByTask('What has to write or read a large table again is done by a task (202).');

export const columns: Category<Context> = {
  name: 'columns',
  singular: 'column',
  title: 'Columns',
  doc: 'What a table is made of, each under its own URI.',
  parameter: 'column',
  parent: 'tables',
  record: ColumnRecord,
  example: {
    name: 'placed_at',
    position: 2,
    type: 'DATETIME',
    nullable: true,
    defaultValue: null,
    comment: null,
    isKey: false,
    ...engineStateExample,
    ...exampleFields('/api/v2/catalogs/default/databases/shop/tables/orders/columns/placed_at'),
  },
  endpoints: [
    list({
      summary: 'Lists the columns of a table by name; `position` tells their order in the table.',
      permission: { privilege: 'read', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      handle: async ({ path, page }, context) =>
        columnsPage(await require(path, context), page, path, context, () => true),
    }),
    get({
      summary: 'Shows a column.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) =>
        found(requireShown(await require(path, context), path.column as string, path, context)),
    }),
    create({
      summary: 'Adds a column at the end of a table.',
      description: byTask,
      permission: { privilege: 'alter', on: 'parent' },
      codes: [...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CONSTRAINT_VIOLATED', 'IN_USE'],
      body: Type.Object(
        { ...changeFields, type: Type.String({ description: 'A logical type, such as `BIGINT`.' }), ...taskFields },
        { additionalProperties: false },
      ),
      mayAccept: true,
      example: { body: { name: 'note', type: 'VARCHAR(200)', comment: 'Free text' } },
      handle: async ({ path, body, ifExists }, context) => {
        const { asked, options } = await splitTaskOptions(body as typeof body & { name: string }, context);
        const { name } = asked;
        const existing = show(await require(path, context), name, path, context);
        if (existing && ifExists === 'return') return created(existing, false, existing.uri);
        const outcome = await changeTable(
          tablePathOf(path),
          { kind: 'addColumn', column: asked },
          context,
          options,
        ).catch(async (error: unknown) => {
          // Another PUT of the same column was faster.
          const now = ifExists === 'return' ? show(await require(path, context), name, path, context) : undefined;
          if (now && error instanceof Failure && error.code === 'OBJECT_ALREADY_EXISTS') return { now };
          throw error;
        });
        if ('now' in outcome) return created(outcome.now, false, outcome.now.uri);
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        const shown = requireShown(last(outcome.chain) as CatalogObject<TableSpec>, name, path, context);
        return created(shown, true, shown.uri);
      },
    }),
    update({
      summary: 'Changes a column: comment, default, whether it may be NULL, or a wider type.',
      description: byTask,
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'CONSTRAINT_VIOLATED', 'IN_USE'],
      body: Type.Object({ ...changeFields, ...taskFields }, { additionalProperties: false }),
      mayAccept: true,
      example: { body: { type: 'DECIMAL(38,2)', nullable: false } },
      handle: async ({ path, body }, context) => {
        const { asked, options } = await splitTaskOptions(body, context);
        const name = path.column as string;
        const outcome = await changeTable(
          tablePathOf(path),
          { kind: 'changeColumn', name, change: asked },
          context,
          options,
        );
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        return updated(requireShown(last(outcome.chain) as CatalogObject<TableSpec>, name, path, context));
      },
    }),
    remove({
      summary: 'Deletes a column and its data.',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'IN_USE'],
      mayAccept: true,
      handle: async ({ path }, context) => {
        const name = path.column as string;
        const chain = (await context.catalog.find(tablePathOf(path))) as TableChain | undefined;
        if (!chain || !show(chain[2], name, path, context)) return deleted(false);
        const outcome = await changeTable(tablePathOf(path), { kind: 'dropColumn', name }, context);
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        return deleted(true);
      },
    }),
    action('rename', {
      on: 'object',
      summary: 'Renames a column; keys and orders that name it follow.',
      description: byTask,
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'IN_USE'],
      body: NewNameByTask,
      bodyRequired: true,
      result: ColumnRecord,
      mayAccept: true,
      example: { body: { newName: 'ordered_at' } },
      handle: async ({ path, body }, context) => {
        const { asked, options } = await splitTaskOptions(body, context);
        const { newName } = asked;
        const outcome = await changeTable(
          tablePathOf(path),
          { kind: 'renameColumn', name: path.column as string, newName },
          context,
          options,
        );
        if (outcome.taskId !== undefined) return accepted(await requireTask(outcome.taskId, context), context);
        return done(requireShown(last(outcome.chain) as CatalogObject<TableSpec>, newName, path, context));
      },
    }),
    searchBy({
      category: 'columns',
      summary: 'Finds columns of a table by name pattern, comment or type.',
      permission: { privilege: 'read', on: 'parent' },
      codes: ['OBJECT_NOT_FOUND'],
      fields: { ...searchFields, type: Type.Optional(Type.String({ description: 'A logical type, exactly.' })) },
      record: ColumnRecord,
      example: { namePattern: '%_at', type: 'DATETIME' },
      find: async (sought, { path, page }, context) => {
        const name = sought.namePattern === undefined ? undefined : likePattern(sought.namePattern);
        const type = sought.type === undefined ? undefined : canonicalType(sought.type);
        const text = sought.comment?.toLowerCase();
        return columnsPage(
          await require(path, context),
          page,
          path,
          context,
          (column) =>
            (name === undefined || name(column.name)) &&
            (type === undefined || formatType(column.type) === type) &&
            (text === undefined || (column.comment ?? '').toLowerCase().includes(text)),
        );
      },
    }),
  ],
};
