// The handler of `load` of a database. See query/loads/new_table_loads.ts for how a table is created from a file.

import type { BodyOf, SharedHandlers } from '../../api/handlers.ts';
import type { loadDatabaseApi } from '../../api/transfer/load_database.ts';
import { alreadyExists, checkName } from '../../catalog/changes/object_names.ts';
import { loadDatabaseTask } from '../../jobs/load_database.ts';
import { parseType, TypeSyntaxError } from '../../model/types.ts';
import { escapePointer } from '../../model/values/json_pointer.ts';
import type { ObjectStoreCredentials } from '../../outbound/object_store.ts';
import type { NewTableInput, NewTableRequest } from '../../query/loads/new_table_loads.ts';
import { Failure, invalidParameter } from '../../standard/failure.ts';
import { type Segment, segment, uriOf } from '../../standard/paths.ts';
import type { TaskRecord, TaskRequest } from '../../tasks/task.ts';
import type { Context } from '../records/handler_context.ts';
import { done } from '../records/outcomes.ts';
import { requirePrivilege } from '../records/permissions.ts';
import { taskOptions, waitSecondsOf } from '../records/task_fields.ts';
import { accepted, acceptedTask } from '../records/task_record.ts';
import { tableRequest } from '../table_definitions/create_and_alter.ts';
import { expectedSpec, requestedSpec } from '../table_definitions/inferred_definition.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';
import { waitForTask } from '../tasks/wait_for_task.ts';
import { splitSource } from './load_fields.ts';

type DatabasePath = readonly [Segment<'catalogs'>, Segment<'databases'>];

export const loadDatabase: SharedHandlers<typeof loadDatabaseApi, Context, DatabasePath> = {
  load: async ({ segments, body }, context) => {
    const { principal, actor, version } = context.call;
    if (context.call.reach === 'within') await requireTarget(body, segments, context);
    const { source, credentials } = splitSource(body.source);
    const input = await withReplicas(loadRequestOf(body), segments, context);
    const request = await context.newTableLoads.request(segments, { ...input, source }, principal);
    const creation = await creationOf(request, segments, body.owner, context);
    const options = await taskOptions(body, context);
    const waitSeconds = waitSecondsOf(body);
    const task = { principal, guard: actor.guard, request, ...options };
    if (body.inferOnly || body.dryRun) {
      if (!body.inferOnly) await requireFree(request, context);
      const inferred = await submitInference({ ...task, target: uriOf(version, segments) }, credentials, context);
      if (!body.inferOnly) return accepted(inferred, context);
      const waited = await waitForTask(inferred.taskId, loadDatabaseTask, waitSeconds, context);
      return waited.result && 'rows' in waited.result ? done(waited.result) : accepted(waited, context);
    }
    const target = uriOf(version, [...segments, segment('tables', request.table)]);
    try {
      const taskId = await context.submitNewTable(creation, { ...task, target }, credentials);
      return acceptedTask(taskId, loadDatabaseTask, context);
    } catch (error) {
      const first = await existingLoadOf(error, { ...task, target }, context);
      if (!first) throw error;
      return accepted(first, context);
    }
  },
};

/** In a cluster, the table has as many replicas as the cluster is set up for. */
async function withReplicas<T extends Pick<NewTableInput, 'definition'>>(
  input: T,
  path: DatabasePath,
  context: Context,
): Promise<T> {
  const [root] = await context.catalog.require(path);
  const { definition } = input;
  if (definition.replicationNum !== undefined) return input;
  const layout = await context.warehouses.layoutOf(root.spec.warehouse);
  return layout ? { ...input, definition: { ...definition, replicationNum: layout.replicaCount } } : input;
}

/** Of a caller that may not create tables in the database: only how a file would be read into a table that the caller may write. */
async function requireTarget({ inferOnly, table }: Body, path: DatabasePath, context: Context): Promise<void> {
  if (inferOnly && table !== undefined) return requirePrivilege('write', [...path, segment('tables', table)], context);
  return requirePrivilege('create', path, context);
}

type Body = BodyOf<(typeof loadDatabaseApi)['load']>;

/** The request without the fields of the task, in the form that the load expects. */
function loadRequestOf(body: Body): Omit<NewTableInput, 'source'> {
  const { table, inferOnly, dryRun, columns, types } = body;
  if (table !== undefined) checkName(table);
  else if (!inferOnly) throw invalidParameter('/table', 'required', 'is required');
  if (inferOnly && dryRun) throw invalidParameter('/dryRun', 'exclusive', 'cannot be combined with `inferOnly`');
  if (body.waitSeconds !== undefined && !inferOnly)
    throw invalidParameter('/waitSeconds', 'inferOnly', 'is allowed only with `inferOnly`: a load is always a task');
  if (columns && types)
    throw invalidParameter('/types', 'exclusive', 'cannot be combined with `columns`, which have types');
  columns?.forEach(({ type, defaultValue }, i) => {
    if (type === undefined && defaultValue !== undefined && defaultValue !== null)
      throw invalidParameter(`/columns/${i}/type`, 'required', 'is required where there is a default');
  });
  for (const [name, type] of Object.entries(types ?? {})) requireType(`/types/${escapePointer(name)}`, type);
  const { format, compression, csv, errorsMax, label: labelled, inferFrom } = body;
  const { comment, properties, primaryKey, orderBy, partitionBy, distribution, replicationNum } = body;
  const { unique_key_constraints } = body;
  const keys = { primaryKey, orderBy, partitionBy, distribution, replicationNum, unique_key_constraints };
  const definition = { comment, properties, ...keys };
  const file = { format, compression, csv, errorsMax, dryRun, label: labelled };
  return {
    ...file,
    table: table ?? '',
    columns,
    types,
    inferFrom,
    definition,
    owner: body.owner,
    inferOnly,
  };
}

function requireType(pointer: string, type: string): void {
  try {
    parseType(type);
  } catch (error) {
    if (!(error instanceof TypeSyntaxError)) throw error;
    throw invalidParameter(pointer, 'type', error.message);
  }
}

/** Throws errors that can be found before the file is read. */
async function creationOf(request: NewTableRequest, path: DatabasePath, owner: string | undefined, context: Context) {
  const [root, database] = await context.catalog.require(path);
  const engine = await context.warehouses.engineOf(root.spec.warehouse);
  const specified = requestedSpec(request, engine);
  // A table that is only inferred need not have a name.
  const name = request.table === '' ? 'new' : request.table;
  const creation = await tableRequest([root, database], name, specified, owner, 'fail', context);
  const spec = expectedSpec(request);
  return { ...creation, spec, change: { ...creation.change, definition: definitionOf(spec) } };
}

/** The same error as that of the load itself. */
async function requireFree({ path, table }: NewTableRequest, context: Context): Promise<void> {
  for (const category of ['tables', 'views']) {
    const existing = (await context.catalog.findFolded([...path, segment(category, table)]))?.at(-1);
    if (existing) throw alreadyExists(category, table, existing.name);
  }
}

type Task = Omit<TaskRequest<typeof loadDatabaseTask>, 'type'>;
type Submitted = TaskRecord<typeof loadDatabaseTask>;

const submitInference = (
  task: Task,
  credentials: ObjectStoreCredentials | undefined,
  context: Context,
): Promise<Submitted> =>
  context.submitLoad({ ...task, type: loadDatabaseTask }, task.request.databaseId, context.call.actor, credentials);

/**
 * If a load with the same label has the name: returns its task, or a task with the same result if that one is another's or no
 * longer exists.
 */
async function existingLoadOf(error: unknown, task: Task, context: Context): Promise<Submitted | undefined> {
  const isTaken =
    error instanceof Failure && (error.code === 'OBJECT_ALREADY_EXISTS' || error.code === 'CHANGE_IN_PROGRESS');
  const known = isTaken ? await context.newTableLoads.findLabelled(task.request) : undefined;
  if (!known) return undefined;
  const { authorizer } = context.access;
  const { principal } = task;
  const first = await context.tasks.get(known.taskId);
  const isSame = first?.type === loadDatabaseTask && first.request.label === task.request.label;
  if (isSame && authorizer.isSubmitter(principal, first.principal)) return first;
  const { path, table } = task.request;
  const tableTarget = { category: 'catalogs', path: [...path, segment('tables', table)] };
  if (known.tableId === undefined || !(await authorizer.isAllowed(principal, 'write', tableTarget))) return undefined;
  return submitInference({ ...task, request: { ...task.request, repeatOf: known.tableId } }, undefined, context);
}
