// Creates tables with rows: of a query (`asSelect`) or of another table (`clone`). A task does it, for which the request waits; the
// table is not visible before it is complete.

import type { StatementParameters } from '../../engines/port/statements.ts';
import { createFilledTableTask, type FillRequest } from '../../jobs/create_filled_table.ts';
import { sqlIdentifier } from '../../model/names.ts';
import type { TableSpec } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';
import type { Accepted } from '../../standard/endpoint.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { describe } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';
import { requireUse } from '../records/permissions.ts';
import {
  splitTaskOptions,
  type TaskBody,
  type TaskOptions,
  taskOptions,
  waitSecondsOf,
} from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';
import {
  type CreateTableBody,
  copiedSpec,
  defaultReplicas,
  type ParentChain,
  type ParentPath,
  pathOfTable,
  type TableChain,
  type TablePath,
  tableRef,
  tableRequest,
} from '../table_definitions/create_and_alter.ts';
import { tableSpec } from '../table_definitions/table_definition.ts';
import { waitForTask } from '../tasks/wait_for_task.ts';

interface AsSelect extends TaskBody {
  readonly sql: string;
  readonly parameters?: StatementParameters;
  readonly waitSeconds?: number;
}

export interface CreatedTable {
  readonly chain: TableChain;
  readonly isNew: boolean;
  readonly accepted?: undefined;
}
export type FilledTable = CreatedTable | { readonly accepted: Accepted<typeof createFilledTableTask> };

export async function createFromQuery(
  parents: ParentPath,
  body: CreateTableBody & { readonly asSelect: AsSelect },
  ifExists: 'fail' | 'return',
  context: Context,
): Promise<FilledTable> {
  const { asSelect, name } = body;
  const waitSeconds = waitSecondsOf(asSelect, '/asSelect');
  for (const other of ['columns', 'sql'] as const)
    if (body[other] !== undefined) throw invalidParameter(`/${other}`, 'exclusive', 'is already given by `asSelect`');
  if (name === undefined) throw invalidParameter('/name', 'required', 'is required');
  const chain = await context.catalog.require(parents);
  const parameters = asSelect.parameters;
  const request = {
    sql: asSelect.sql,
    parameters,
    numbers: 'number' as const,
    catalog: chain[0].name,
    database: chain[1].name,
  };
  const columns = (await context.queries.describe(request, context.call)).map(({ name: column, type, logical }) => {
    if (logical) return { name: column, type: formatType(logical) };
    const message = `the column ${JSON.stringify(column)} of the query has type ${type}, which tables do not support; cast it to another type`;
    throw new Failure('SQL_NOT_SUPPORTED', message);
  });
  const { warehouse } = chain[0].spec;
  const replicationNum = body.replicationNum ?? (await defaultReplicas(warehouse, context));
  const spec = tableSpec({ ...body, columns, replicationNum }, await context.warehouses.engineOf(warehouse));
  const filling = {
    spec: describe(spec, body),
    query: asSelect.sql,
    pointer: '/asSelect/sql',
    parameters,
    asked: { ...body, asSelect: { sql: asSelect.sql } },
  };
  return createFilled(
    chain,
    name,
    filling,
    { owner: body.owner, ifExists, waitSeconds, ...(await taskOptions(asSelect, context, '/asSelect')) },
    context,
  );
}

export async function cloneTable(
  path: TablePath,
  toParents: ParentPath,
  body: { readonly newName: string; readonly waitSeconds?: number } & TaskBody,
  context: Context,
): Promise<FilledTable> {
  const { waitSeconds: _, ...sent } = body;
  const { request: asked, options: taskFields } = await splitTaskOptions(sent, context);
  const options = { waitSeconds: waitSecondsOf(body), ...taskFields };
  const source = await context.catalog.require(path);
  const to = await context.catalog.require(toParents);
  if (source[0].spec.warehouse !== to[0].spec.warehouse)
    throw new Failure('CHANGE_NOT_SUPPORTED', 'the copy would be in another warehouse, which cannot read the table');
  const spec = await copiedSpec(source, to, context);
  const columns = spec.columns.map(({ name }) => sqlIdentifier(name)).join(', ');
  const query = `SELECT ${columns} FROM ${source.map(({ name }) => sqlIdentifier(name)).join('.')}`;
  return createFilled(to, body.newName, { spec, query, pointer: '', asked }, { ifExists: 'fail', ...options }, context);
}

interface Filling {
  readonly spec: TableSpec;
  readonly query: string;
  readonly pointer: string;
  readonly parameters?: StatementParameters | undefined;
  /** The body without the fields of the task. */
  readonly asked: object;
}

async function createFilled(
  parents: ParentChain,
  name: string,
  { spec, query, pointer, parameters, asked }: Filling,
  options: TaskOptions & {
    readonly owner?: string | undefined;
    readonly ifExists: 'fail' | 'return';
    readonly waitSeconds: number;
  },
  context: Context,
): Promise<FilledTable> {
  const [root, database] = parents;
  const { priority, after, notify, waitSeconds } = options;
  const { warehouse } = root.spec;
  await requireUse(warehouse, context);
  const request = await tableRequest(parents, name, spec, options.owner, options.ifExists, context);
  const table = tableRef([root, database, { name }]);
  const names = { catalog: root.name, database: database.name };
  const columns = spec.columns.map((column) => column.name);
  const engine = await context.warehouses.use(warehouse);
  const { sql } = await engine.buildStatement({ kind: 'insert', table, columns, query: { text: query, pointer } });
  const expected = { kind: 'insert' as const, table: { ...names, table: name }, isNew: true as const };
  const fill: FillRequest = { fill: { sql, parameters, numbers: 'number', ...names, only: expected, asked } };
  const path = pathOfTable([root, database, { name }]);
  const target = uriOf(context.call.version, path);
  const { principal } = context.call;
  const outcome = await context.catalog.createLater<TableSpec>({
    ...request,
    task: { type: createFilledTableTask, target, request: fill, principal, priority, after, notify },
  });
  if (outcome.object) return { chain: [root, database, outcome.object], isNew: false };
  return waitForTable(outcome.taskId, path, waitSeconds, context);
}

/** Returns the table if its task succeeds in time, else the task. A failure of the task becomes that of the request. */
async function waitForTable(
  taskId: string,
  path: TablePath,
  waitSeconds: number,
  context: Context,
): Promise<FilledTable> {
  const task = await waitForTask(taskId, createFilledTableTask, waitSeconds, context);
  if (task.state === 'succeeded') return { chain: await context.catalog.require(path), isNew: true };
  return { accepted: accepted(task, context) };
}
