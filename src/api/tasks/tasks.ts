// The declaration of `tasks`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, get, list, remove } from '../declare.ts';
import { nullable, recordFields, Timestamp } from '../fields.ts';
import { searchBy } from '../search.ts';
import { stateField } from '../states.ts';
import { PriorityField } from '../task_fields.ts';
import { TaskResult } from './task_types.ts';

export const waitSecondsMax = 60;

const TaskRecordSchema = Type.Object({
  taskId: Type.String(),
  type: Type.String({ description: 'The type of the task, such as `run_query` or `alter_table`.' }),
  state: stateField({
    pending: 'it waits in the queue',
    running: 'it runs',
    cancelling: 'its cancellation was requested; it has not stopped yet',
    succeeded: 'it ended with a result',
    failed: 'it ended with an error',
    cancelled: 'it was stopped',
  }),
  progress: nullable(Type.Number({ minimum: 0, maximum: 1, description: 'Null if unknown.' })),
  progressText: nullable(Type.String()),
  expectedEndAt: nullable(
    Type.String({ format: 'date-time', description: 'The estimated end, extrapolated from its progress.' }),
  ),
  priority: PriorityField,
  after: Type.Array(Type.String(), { description: 'Ids of the tasks that have to succeed before it begins.' }),
  notify: nullable(
    Type.Object(
      {
        host: Type.String(),
        signed: Type.Boolean(),
        state: Type.String({ description: '`waiting`, `sent` or `failed`.' }),
        attempts: Type.Integer(),
        error: nullable(Type.String({ description: 'Why the last attempt failed.' })),
      },
      { title: 'TaskNotificationDelivery', description: 'The delivery of the notification of its end.' },
    ),
  ),
  submittedBy: Type.String(),
  submittedAt: Timestamp,
  startedAt: nullable(Timestamp),
  endedAt: nullable(Timestamp),
  attempt: Type.Integer({ description: 'The number of attempts so far.' }),
  target: Type.String({ description: 'The URI of the object of the task.' }),
  request: Type.Unknown({ description: 'The request of the caller, with defaults, without keys and other secrets.' }),
  result: TaskResult,
  queryId: Type.Optional(Type.String({ description: 'Of the statement that it runs.' })),
  firstPage: Type.Optional(
    Type.String({ description: 'The URI of the first page of rows of a query, once it is complete.' }),
  ),
  rejectsLink: Type.Optional(
    Type.String({ description: 'A link to the rejected rows of a load, one JSON object per line; valid for an hour.' }),
  ),
  error: nullable(
    Type.Object(
      { code: Type.String(), message: Type.String(), result: Type.Optional(Type.Unknown()) },
      { title: 'TaskError' },
    ),
  ),
  ...recordFields,
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
  result: {
    queryId: '019aa0b4-7c20-7a11-8c34-1e2d3c4b5a69',
    columns: [{ name: 'count(*)', type: 'BIGINT' }],
    rowCount: 1,
    truncated: false,
    pageCount: 1,
    statistics: { elapsedMs: 41.2, queuedMs: 0, resultBytes: 8 },
  },
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

export const tasksApi = category({
  name: 'tasks',
  singular: 'task',
  title: 'Tasks',
  doc: 'Work that continues after its request, and survives a crash of the server.',
  parameter: 'taskId',
  idField: 'taskId',
  record: TaskRecordSchema,
  example,
  endpoints: {
    list: list({
      summary: 'Lists tasks, the most recently submitted first.',
      description: 'Lists the tasks of the caller, or all tasks if the caller may read them.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Returns a task; with `waitSeconds` when it has ended or the time is over.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      query: strictObject({
        waitSeconds: Type.Optional(Type.Integer({ minimum: 0, maximum: waitSecondsMax, default: 0 })),
      }),
    }),
    delete: remove({
      summary: 'Deletes a task and its result; a task that has not ended is cancelled first.',
      permission: { privilege: 'drop', on: 'target', orSelf: true },
      codes: ['TASK_NOT_CANCELLABLE'],
    }),
    cancel: action('object', {
      freesSpace: true,
      summary: 'Cancels a task. A task that has ended is not changed.',
      permission: { privilege: 'operate', on: 'target', orSelf: true },
      body: strictObject({}),
      result: TaskRecordSchema,
      example: { result: { ...example, state: 'cancelling', endedAt: null, result: null } },
    }),
    search: searchBy({
      category: 'tasks',
      summary: 'Finds tasks by state, type, submitter, target, time and label, newest first; all criteria must match.',
      description: 'Lists the tasks of the caller, or all tasks if the caller may read them.',
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
        submittedBy: Type.Optional(
          Type.String({ maxLength: 128, description: 'The name of the user at the time of the event.' }),
        ),
        target: Type.Optional(Type.String({ maxLength: 8192, description: 'The URI of the object.' })),
        label: Type.Optional(Type.String({ maxLength: 256, description: 'The label of a load.' })),
        from: Type.Optional(Type.String({ format: 'date-time', description: 'The earliest time of submission.' })),
        to: Type.Optional(Type.String({ format: 'date-time', description: 'Not included.' })),
      },
      record: TaskRecordSchema,
      example: { state: 'failed', from: '2026-01-31T00:00:00Z' },
    }),
  },
});
