// The action `load` on a database: a table made from data from outside, by a task; or what it would be. How is query/loads/new_table_loads.ts'.

import { describedBody, nullable } from '../../api/fields.ts';
import { codes, queryCost, WaitSeconds } from '../../api/queries/statement_fields.ts';
import { alreadyExists, checkName } from '../../catalog/changes/change_context.ts';
import { loadDatabaseTask } from '../../jobs/load_database.ts';
import { parseType, TypeSyntaxError } from '../../model/types.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { NewTableInput, NewTableRequest } from '../../query/loads/new_table_loads.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import type { TaskRecord, TaskRequest } from '../../tasks/task.ts';
import { invalid } from '../records/fields.ts';
import { accepted, action, type Context, done, requireTask, segment, unique } from '../records/handler_context.ts';
import { taskOptions, waitSecondsOf } from '../records/task_fields.ts';
import { type ParentChain, tableRequest } from '../table_definitions/create_and_alter.ts';
import { expectedSpec, requestedSpec } from '../table_definitions/inferred_definition.ts';
import {
  ColumnBody,
  columnsMax,
  DefaultValue,
  definitionFields,
  definitionOf,
} from '../table_definitions/table_definition.ts';
import { waitForTask } from '../tasks/wait_for_task.ts';
import { Csv, columnOrigin, fileFields, label, loadCodes, split } from './load_fields.ts';

const Column = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'Of the table.' }),
    ...columnOrigin,
    type: Type.Optional(Type.String({ description: 'By default that of its source, or of its expression.' })),
    nullable: Type.Optional(Type.Boolean({ default: true })),
    defaultValue: Type.Optional(nullable(DefaultValue)),
    comment: ColumnBody.properties.comment,
  },
  { additionalProperties: false },
);

const Body = Type.Object(
  {
    table: Type.Optional(
      Type.String({ description: 'The name of the table that is made; with `inferOnly` it may be left out.' }),
    ),
    ...fileFields,
    columns: Type.Optional(
      Type.Array(Column, {
        minItems: 1,
        maxItems: columnsMax,
        description:
          'The columns of the table, all of them; by default those of the file. One that the file has not, and that has a type and a default, gets its default.',
      }),
    ),
    types: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        maxProperties: columnsMax,
        description:
          'Instead of `columns`: types of single columns of the file; the others have those that were found.',
      }),
    ),
    inferFrom: Type.Optional(
      Type.Union([Type.Literal('sample'), Type.Literal('all')], {
        default: 'sample',
        description:
          'Columns and types are found in the first 20,480 rows, or in all, which takes another reading of the file.',
      }),
    ),
    ...describedBody,
    ...definitionFields,
    label: label('A load of this label that made the table, or is making it, is not done again: its task is answered.'),
    inferOnly: Type.Optional(
      Type.Boolean({ default: false, description: 'The table is shown as it would be, and not made.' }),
    ),
    waitSeconds: Type.Optional(WaitSeconds),
  },
  { additionalProperties: false },
);
type Body = Static<typeof Body>;

const Inferred = Type.Object({
  table: Type.Optional(Type.String()),
  columns: Type.Array(Type.Object({ ...Column.properties }), {
    description: 'As `columns` of the body takes them.',
  }),
  ...definitionFields,
  rows: Type.Array(Type.Array(Type.Unknown()), {
    description: 'The first rows, ten at most; what does not fit is left out, or null.',
  }),
  format: Type.String(),
  compression: Type.String(),
  csv: Type.Optional(Type.Object({ ...Csv.properties }, { description: 'How the file is read, with what was found.' })),
  bytes: Type.Integer({ description: 'Of the file, unpacked.' }),
});

const exampleResult = {
  table: 'orders',
  columns: [
    { name: 'id', type: 'BIGINT', nullable: false },
    { name: 'placed', type: 'DATE', nullable: true },
  ],
  primaryKey: ['id'],
  rows: [[1, '2026-01-31']],
  format: 'csv',
  compression: 'none',
  csv: { delimiter: ',', header: true },
  bytes: 48120,
};

export const loadDatabase = (pathOf: (path: PathParameters) => Segment[]) =>
  action('load', {
    on: 'object',
    summary: 'Creates a table from a file and fills it, all or nothing: CSV, JSON, NDJSON or Parquet.',
    description:
      'Always a task, of which the result is that of a load of a table, with `table`. Nobody sees the table before it is full, and a load that fails leaves none. ' +
      'With `inferOnly` nothing is made: the answer (200) is the definition that the table would have, and its first rows; past `waitSeconds` it goes on as a task (202).',
    permission: { privilege: 'create', on: 'object' },
    codes: unique([
      ...loadCodes,
      ...codes.filter((code) => code !== 'RESULT_QUOTA_EXCEEDED' && code !== 'PARAMETERS_INVALID'),
      'DATA_INVALID',
      'REMOTE_REFUSED',
      'REMOTE_UNAVAILABLE',
      'INVALID_NAME',
      'OBJECT_ALREADY_EXISTS',
      'TASK_ATTEMPTS_EXHAUSTED',
      'TASK_ENDED_ENGINE',
      'TASK_INTERRUPTED',
      'TASK_DEPENDENCY_FAILED',
    ]),
    body: Body,
    bodyRequired: true,
    result: Inferred,
    mayAccept: true,
    cost: queryCost,
    example: {
      body: { table: 'orders', source: { path: '/data/incoming/orders.csv' }, primaryKey: ['id'], inferOnly: true },
      result: exampleResult,
    },
    handle: async ({ path, body }, context) => {
      const segments = pathOf(path);
      const { principal, actor, version } = context.call;
      const { source, credentials } = split(body.source);
      const asked = { ...askedOf(body), source };
      const request = await context.newTableLoads.request(segments, asked, principal);
      const creation = await creationOf(request, body.owner, context);
      const options = await taskOptions(body, context);
      const waitSeconds = waitSecondsOf(body);
      const task = { principal, guard: actor.guard, request, ...options };
      if (body.inferOnly || body.dryRun) {
        if (!body.inferOnly) await requireFree(request, context);
        const made = await looked({ ...task, target: uriOf(version, segments) }, credentials, context);
        if (!body.inferOnly) return accepted(made, context);
        const waited = await waitForTask(made.taskId, waitSeconds, context);
        return waited.state === 'succeeded' ? done(waited.result as object) : accepted(waited, context);
      }
      const target = uriOf(version, [...segments, segment('tables', request.table)]);
      try {
        const taskId = await context.submitNewTable(creation, { ...task, target }, credentials);
        return accepted(await requireTask(taskId, context), context);
      } catch (error) {
        const first = await firstOf(error, { ...task, target }, context);
        if (!first) throw error;
        return accepted(first, context);
      }
    },
  });

/** The request without what is the task's, its parts in the places where the load looks for them. */
function askedOf(body: Body): Omit<NewTableInput, 'source'> {
  const { table, inferOnly, dryRun, columns, types } = body;
  if (table !== undefined) checkName(table);
  else if (!inferOnly) throw invalid('/table', 'required', 'is required');
  if (inferOnly && dryRun) throw invalid('/dryRun', 'exclusive', 'is not taken with `inferOnly`, which does less');
  if (body.waitSeconds !== undefined && !inferOnly)
    throw invalid('/waitSeconds', 'inferOnly', 'is for `inferOnly`: a load is a task at once');
  if (columns && types) throw invalid('/types', 'exclusive', 'is not taken with `columns`, which have types');
  columns?.forEach(({ type, defaultValue }, i) => {
    if (type === undefined && defaultValue !== undefined && defaultValue !== null)
      throw invalid(`/columns/${i}/type`, 'required', 'is required where there is a default');
  });
  for (const [name, type] of Object.entries(types ?? {})) requireType(`/types/${pointerPart(name)}`, type);
  const { format, compression, csv, errorsMax, label: labelled, inferFrom } = body;
  const { comment, properties, primaryKey, orderBy, partitionBy, distribution, replicationNum } = body;
  const { unique_key_constraints } = body;
  const keys = { primaryKey, orderBy, partitionBy, distribution, replicationNum, unique_key_constraints };
  const definition = { comment, properties, ...keys };
  const file = { format, compression, csv, errorsMax, dryRun, label: labelled } as Omit<NewTableInput, 'source'>;
  return {
    ...file,
    table: table ?? '',
    columns: columns as NewTableInput['columns'],
    types,
    inferFrom,
    definition,
    owner: body.owner,
    inferOnly,
  };
}

const pointerPart = (name: string) => name.replaceAll('~', '~0').replaceAll('/', '~1');

function requireType(pointer: string, type: string): void {
  try {
    parseType(type);
  } catch (error) {
    if (!(error instanceof TypeSyntaxError)) throw error;
    throw invalid(pointer, 'type', error.message);
  }
}

/** Throws what can be said of the table before the file was looked at. */
async function creationOf(request: NewTableRequest, owner: string | undefined, context: Context) {
  const parents = (await context.catalog.require(request.path)) as ParentChain;
  const engine = await context.warehouses.engineOf(parents[0].spec.warehouse);
  const asAsked = requestedSpec(request, engine);
  // What is only looked at need not have a name.
  const name = request.table === '' ? 'new' : request.table;
  const creation = await tableRequest(parents, name, asAsked, owner, 'fail', context);
  const spec = expectedSpec(request);
  const change = { ...(creation.change as object), definition: definitionOf(spec) } as typeof creation.change;
  return { ...creation, spec, change };
}

/** As the load itself would say it. */
async function requireFree({ path, table }: NewTableRequest, context: Context): Promise<void> {
  for (const category of ['tables', 'views']) {
    const there = (await context.catalog.findFolded([...path, segment(category, table)]))?.at(-1);
    if (there) throw alreadyExists(category, table, there.name);
  }
}

type Task = Omit<TaskRequest, 'type'> & { readonly request: NewTableRequest };

const looked = (task: Task, credentials: ObjectStoreCredentials | undefined, context: Context): Promise<TaskRecord> =>
  context.submitLoad({ ...task, type: loadDatabaseTask }, task.request.databaseId, context.call.actor, credentials);

/** Where the name is taken by a load of the same label: its task, or one that answers as it did where that is another's or is gone. */
async function firstOf(error: unknown, task: Task, context: Context): Promise<TaskRecord | undefined> {
  const isTaken =
    error instanceof Failure && (error.code === 'OBJECT_ALREADY_EXISTS' || error.code === 'CHANGE_IN_PROGRESS');
  const known = isTaken ? await context.newTableLoads.findLabelled(task.request) : undefined;
  if (!known) return undefined;
  const { authorizer } = context.access;
  const { principal } = task;
  const first = await context.tasks.get(known.taskId);
  const isSame = first?.type === loadDatabaseTask && (first.request as NewTableRequest).label === task.request.label;
  if (isSame && authorizer.isSubmitter(principal, first.principal)) return first;
  const { path, table } = task.request;
  const place = { category: 'catalogs', path: [...path, segment('tables', table)] };
  if (known.tableId === undefined || !(await authorizer.isAllowed(principal, 'write', place))) return undefined;
  return looked({ ...task, request: { ...task.request, repeatOf: known.tableId } }, undefined, context);
}
