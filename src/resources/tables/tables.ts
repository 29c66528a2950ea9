// The handlers of `tables`. See table_definition.ts for definitions and columns.ts for single columns.
import { tablesApi } from '../../api/tables/tables.ts';
import { segment } from '../../standard/paths.ts';
import { type Context, implement } from '../records/handler_context.ts';
import { dependentViews } from '../records/in_use_by_views.ts';
import { page, render, show } from '../records/object_records.ts';
import { created, done, found, updated } from '../records/outcomes.ts';
import { requirePrivilege } from '../records/permissions.ts';
import { findByName } from '../records/search.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { compareTable } from '../table_definitions/compare_table.ts';
import {
  changeTable,
  copyTable,
  createTable,
  pathOfTable,
  type TablePath,
} from '../table_definitions/create_and_alter.ts';
import { tableRecordOf as toRecord } from '../table_definitions/table_record.ts';
import { exportTable } from '../transfer/export_actions.ts';
import { loadTable } from '../transfer/load_table.ts';
import { type CreatedTable, cloneTable, createFromQuery, type FilledTable } from './create_table_as_select.ts';
import { checksumTable, optimizeTable } from './table_tasks.ts';
import { dropTable, undropTable } from './table_undrop.ts';
import { tableWrites } from './table_writes.ts';

/** The parent of a copy; by default that of the original. */
async function requireTarget(
  [root, parent]: TablePath,
  { catalog = root.name, database = parent.name }: { readonly catalog?: string; readonly database?: string },
  context: Context,
) {
  const target = [segment('catalogs', catalog), segment('databases', database)] as const;
  await requirePrivilege('create', target, context);
  return target;
}

async function shownMade({ chain, isNew: made }: CreatedTable, context: Context) {
  return created(await render(pathOfTable(chain), chain, context, toRecord), made);
}

/** The response to a request that creates a table, at once or by a task. */
const shownFilled = (outcome: FilledTable, context: Context) => outcome.accepted ?? shownMade(outcome, context);

export const tables = implement(tablesApi, {
  list: ({ segments, page: requestedPage }, context) => page(segments, 'tables', requestedPage, context, toRecord),
  get: async ({ segments }, context) => found(await show(segments, context, toRecord)),
  create: async ({ segments, body, ifExists }, context) => {
    const { asSelect } = body;
    if (!asSelect) return shownMade(await createTable(segments, body, ifExists, context), context);
    return shownFilled(await createFromQuery(segments, { ...body, asSelect }, ifExists, context), context);
  },
  update: async ({ segments, body }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const outcome = await changeTable(segments, { kind: 'patch', body: request }, context, options);
    if (outcome.accepted) return outcome.accepted;
    return updated(await render(segments, outcome.chain, context, toRecord));
  },
  delete: dropTable,
  rename: async ({ segments, body }, context) => {
    const { request, options } = await splitTaskOptions(body, context);
    const change = { kind: 'rename', newName: request.newName } as const;
    const outcome = await changeTable(segments, change, context, options);
    if (outcome.accepted) return outcome.accepted;
    return done(await render(pathOfTable(outcome.chain), outcome.chain, context, toRecord));
  },
  truncate: async ({ segments }, context) => {
    const { chain } = await changeTable(segments, { kind: 'truncate' }, context);
    if (!chain) throw new Error('a truncation does not become a task');
    await context.catalog.saveStatistics(chain[2].id, {
      rowCount: 0,
      dataBytes: 0,
      asOf: new Date().toISOString(),
    });
    return done(await render(segments, chain, context, toRecord));
  },
  ...tableWrites,
  optimize: optimizeTable,
  checksum: checksumTable,
  ...exportTable,
  ...loadTable,
  compare: compareTable,
  copy_definition: async ({ segments, body }, context) => {
    const target = await requireTarget(segments, body, context);
    return shownMade(await copyTable(segments, target, body.newName, context), context);
  },
  clone: async ({ segments, body }, context) => {
    const { newName, rows = true } = body;
    const target = await requireTarget(segments, body, context);
    if (!rows) return shownMade(await copyTable(segments, target, newName, context), context);
    return shownFilled(await cloneTable(segments, target, body, context), context);
  },
  dependents: async ({ segments }, context) => {
    const [, , { id }] = await context.catalog.require(segments);
    return done(await dependentViews(id, context));
  },
  search: findByName(tablesApi, toRecord),
  undrop: undropTable,
});
