// Tasks: work that outlives its request. Made by other endpoints; polled, cancelled and deleted here (rest-standard B5).

import { nullable } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import { PriorityField } from '../../api/task_fields.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { Category } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { Type } from '../../standard/type.ts';
import type { TaskFilter } from '../../tasks/task_search.ts';
import { timeOf } from '../records/fields.ts';
import {
  action,
  type Context,
  deleted,
  done,
  found,
  get,
  list,
  remove,
  requireOnCollection,
  taskRecord,
} from '../records/handler_context.ts';
import { type Page, pageOf, searchBy } from '../records/search.ts';
import { taskWithLinks } from './result_links.ts';

const Timestamp = Type.String({ format: 'date-time' });
export const waitSecondsMax = 60;

const TaskRecordSchema = Type.Object({
  taskId: Type.String(),
  type: Type.String({ description: 'What it does, such as `run_query` or `alter_table`.' }),
  state: stateField({
    pending: 'it waits for its turn',
    running: 'it runs',
    cancelling: 'it was asked to stop and has not stopped yet',
    succeeded: 'it ended with a result',
    failed: 'it ended with an error',
    cancelled: 'it was stopped',
  }),
  progress: nullable(Type.Number({ minimum: 0, maximum: 1, description: 'Null where it is not known.' })),
  progressText: nullable(Type.String()),
  expectedEndAt: nullable(
    Type.String({ format: 'date-time', description: 'When it will have ended, as far as its progress tells.' }),
  ),
  priority: PriorityField,
  after: Type.Array(Type.String(), { description: 'Ids of the tasks that had to succeed before it began.' }),
  notify: nullable(
    Type.Object(
      {
        host: Type.String(),
        signed: Type.Boolean(),
        state: Type.String({ description: '`waiting`, `sent` or `failed`.' }),
        attempts: Type.Integer(),
        error: nullable(Type.String({ description: 'Why the last attempt failed.' })),
      },
      { description: 'What became of the notice of its end.' },
    ),
  ),
  submittedBy: Type.String(),
  submittedAt: Timestamp,
  startedAt: nullable(Timestamp),
  endedAt: nullable(Timestamp),
  attempt: Type.Integer({ description: 'How often it was begun.' }),
  target: Type.String({ description: 'URI of the object that it is about.' }),
  request: Type.Unknown({ description: 'What the caller sent, with defaults, without keys and other secrets.' }),
  result: Type.Unknown({
    description: 'Files in it have links, good for an hour, where the task is shown by itself; a list has none.',
  }),
  firstPage: Type.Optional(
    Type.String({ description: 'Of a query that succeeded: URI of the first page of its rows.' }),
  ),
  rejectsLink: Type.Optional(
    Type.String({ description: 'Where the rows that a load left out are read, one JSON object a line; for an hour.' }),
  ),
  error: nullable(Type.Object({ code: Type.String(), message: Type.String(), result: Type.Optional(Type.Unknown()) })),
  createdAt: Timestamp,
  createdBy: Type.String(),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
  version: Type.Integer(),
  uri: Type.String(),
  cancelUri: Type.String(),
});

const example = {
  taskId: '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  type: 'run_query',
  state: 'succeeded',
  progress: 1,
  progressText: null,
  expectedEndAt: null,
  priority: 'normal',
  after: [],
  notify: null,
  submittedBy: 'root',
  submittedAt: '2026-01-31T10:00:00.000Z',
  startedAt: '2026-01-31T10:00:00.010Z',
  endedAt: '2026-01-31T10:00:41.200Z',
  attempt: 1,
  target: '/api/v2/catalogs/default/databases/ssb',
  request: { sql: 'SELECT count(*) FROM lineorder' },
  result: { queryId: '019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69', rowCount: 1, pageCount: 1 },
  error: null,
  firstPage: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d/pages/0',
  createdAt: '2026-01-31T10:00:00.000Z',
  createdBy: 'root',
  updatedAt: '2026-01-31T10:00:41.200Z',
  updatedBy: 'root',
  version: 1,
  uri: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  cancelUri: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d/cancel',
};

export function taskMissing(taskId: string): Failure {
  return new Failure('OBJECT_NOT_FOUND', `there is no task ${JSON.stringify(taskId)}`, {
    category: 'tasks',
    name: taskId,
  });
}

/** A task is its submitter's; others need the privilege on all tasks. Throws FORBIDDEN, whether it is there or not. */
export async function permitTask(privilege: Privilege, taskId: string, context: Context): Promise<void> {
  const task = await context.tasks.get(taskId);
  const { call, access } = context;
  if (!task || !access.authorizer.isSubmitter(call.principal, task.principal))
    await requireOnCollection(privilege, 'tasks', context);
  call.permitted = true;
}

async function tasksPage(page: Page, sought: TaskFilter, context: Context) {
  const { reach, principal } = context.call;
  const of = reach === 'within' ? principal : undefined;
  const found = await context.tasks.list({ limit: page.limit + 1, after: page.after, of, sought });
  return pageOf(
    found,
    page,
    ({ taskId }) => taskId,
    (task) => taskRecord(task, context),
  );
}

export const tasks: Category<Context> = {
  name: 'tasks',
  singular: 'task',
  title: 'Tasks',
  doc: 'Work that outlives the request that asked for it; it survives a crash of the server.',
  parameter: 'taskId',
  idField: 'taskId',
  record: TaskRecordSchema,
  example,
  endpoints: [
    list({
      summary: 'Lists tasks, those submitted last first.',
      description: 'Those of the caller, or all, to who may read all tasks.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: ({ page }, context) => tasksPage(page, {}, context),
    }),
    get({
      summary: 'Shows a task; with `waitSeconds` as soon as it has ended, or when the time is over.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      query: Type.Object(
        { waitSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: waitSecondsMax, default: 0 })) },
        { additionalProperties: false },
      ),
      handle: async ({ path, query }, context) => {
        const { waitSeconds = 0 } = query;
        const taskId = path.taskId as string;
        await permitTask('read', taskId, context);
        const task =
          waitSeconds === 0
            ? await context.tasks.get(taskId)
            : await context.tasks.wait(taskId, waitSeconds * 1000, context.call.signal);
        if (!task) throw taskMissing(taskId);
        return found(await taskWithLinks(task, context));
      },
    }),
    remove({
      summary: 'Deletes a task, its record and its result; one that has not ended is cancelled first.',
      permission: { privilege: 'drop', on: 'target', orSelf: true },
      codes: ['TASK_NOT_CANCELLABLE'],
      handle: async ({ path }, context) => {
        const taskId = path.taskId as string;
        await permitTask('drop', taskId, context);
        return deleted(await context.tasks.remove(taskId, context.call.actor));
      },
    }),
    action('cancel', {
      freesSpace: true,
      on: 'object',
      summary: 'Cancels a task. One that has ended stays as it is.',
      permission: { privilege: 'operate', on: 'target', orSelf: true },
      codes: ['OBJECT_NOT_FOUND'],
      body: Type.Object({}, { additionalProperties: false }),
      result: TaskRecordSchema,
      example: { result: { ...example, state: 'cancelling', endedAt: null, result: null } },
      handle: async ({ path }, context) => {
        await permitTask('operate', path.taskId as string, context);
        const task = await context.tasks.cancel(path.taskId as string, context.call.actor);
        if (!task) throw taskMissing(path.taskId as string);
        return done(await taskWithLinks(task, context));
      },
    }),
    searchBy({
      category: 'tasks',
      summary:
        'Finds tasks by state, type, submitter, target, time and label, the newest first; all that is given must fit.',
      description: 'Those of the caller, or all, to who may read all tasks.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      fields: {
        state: Type.Optional(
          Type.Union([
            Type.Literal('pending'),
            Type.Literal('running'),
            Type.Literal('cancelling'),
            Type.Literal('succeeded'),
            Type.Literal('failed'),
            Type.Literal('cancelled'),
          ]),
        ),
        type: Type.Optional(Type.String({ maxLength: 128 })),
        submittedBy: Type.Optional(Type.String({ maxLength: 128, description: 'Name of a user, as it was.' })),
        target: Type.Optional(Type.String({ maxLength: 8192, description: 'URI of the object.' })),
        label: Type.Optional(Type.String({ maxLength: 256, description: 'Of a load.' })),
        from: Type.Optional(Type.String({ format: 'date-time', description: 'When it was submitted.' })),
        to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
      },
      record: TaskRecordSchema,
      example: { state: 'failed', from: '2026-01-31T00:00:00Z' },
      find: ({ from, to, ...sought }, { page }, context) => {
        const times = { submittedFrom: timeOf(from, '/from'), submittedBefore: timeOf(to, '/to') };
        return tasksPage(page, { ...sought, ...times }, context);
      },
    }),
  ],
};
