// Tasks as records and as outcomes.

import type { TaskType } from '../../api/tasks/task_types.ts';
import { rejectsLifetimeMs } from '../../query/loads/load_pipeline.ts';
import type { Accepted } from '../../standard/endpoint.ts';
import { objectNotFound } from '../../standard/failure.ts';
import { uriOf } from '../../standard/paths.ts';
import { objectVersion } from '../../standard/record_version.ts';
import { isOfType, type StoredTask, type TaskRecord, versionOfTask } from '../../tasks/task.ts';
import type { Context } from './handler_context.ts';
import { redactedRequest } from './request_redaction.ts';

type Parts = Pick<Context, 'call' | 'files' | 'history' | 'submitter'>;

export function accepted<T extends TaskType>(task: TaskRecord<T>, context: Parts): Accepted<T> {
  const record = taskRecord(task, context);
  return { outcome: 'accepted', task: record, uri: record.uri };
}

/** The outcome of a request whose task was just submitted. */
export const acceptedTask = async <T extends TaskType>(
  taskId: string,
  type: T,
  context: Parts & Pick<Context, 'tasks'>,
): Promise<Accepted<T>> => accepted(await requireTask(taskId, type, context), context);

/** The record of a task of that type that has just been submitted. */
export async function requireTask<T extends TaskType>(
  taskId: string,
  type: T,
  context: Pick<Context, 'tasks'>,
): Promise<TaskRecord<T>> {
  const task = await context.tasks.get(taskId);
  if (!task || !isOfType(task, type)) throw objectNotFound('tasks', taskId, `there is no task "${taskId}"`);
  return task;
}

/** Ids of running statements by the ids of their tasks. */
type RunningStatements = ReadonlyMap<string, string>;
const noStatements: RunningStatements = new Map();

/** The statements that tasks run at the moment, on whichever server. */
export const runningStatements = (
  tasks: readonly StoredTask[],
  { history }: Pick<Context, 'history'>,
): Promise<RunningStatements> =>
  history.queriesOfTasks(tasks.filter(({ endedAt }) => endedAt === null).map(({ taskId }) => taskId));

/**
 * The record of a task (rest-standard B5). `queryId`: of the statement that it runs; `firstPage`: the URI of the rows of a query;
 * `rejectsLink`: of the rows that a load rejected. `running`: `runningStatements` of the task, which may run on another server.
 */
export function taskRecord<T extends TaskType>(
  task: TaskRecord<T>,
  { call, files, history, submitter }: Parts,
  running: RunningStatements = noStatements,
) {
  const uri = uriOf(call.version, [{ category: 'tasks', name: task.taskId }]);
  const { principal: _principal, serverId: _server, ...shown } = task;
  const request = redactedRequest(task);
  const version = versionOfTask(task);
  const { submittedAt, submittedBy, startedAt, endedAt, result } = shown;
  const fileId =
    typeof result === 'object' && result !== null && 'rejectsFileId' in result ? result.rejectsFileId : undefined;
  const rejects =
    typeof fileId === 'string' && endedAt ? { fileId, expiresAt: Date.parse(endedAt) + rejectsLifetimeMs } : undefined;
  const paged = typeof result === 'object' && result !== null && 'pageCount' in result && result.pageCount !== 0;
  const hasPage = paged || (endedAt === null && submitter.hasLivePages(task.taskId));
  const queryId =
    typeof result === 'object' && result !== null && 'queryId' in result
      ? String(result.queryId)
      : (running.get(task.taskId) ?? history.queryOfTask(task.taskId));
  return {
    ...shown,
    request,
    ...(queryId === undefined ? {} : { queryId }),
    ...(hasPage ? { firstPage: `${uri}/pages/0` } : {}),
    ...(rejects ? { rejectsLink: files.link(rejects, 'read') } : {}),
    createdAt: submittedAt,
    createdBy: submittedBy,
    updatedAt: endedAt ?? startedAt ?? submittedAt,
    updatedBy: submittedBy,
    version: version.version,
    uri,
    cancelUri: `${uri}/cancel`,
    [objectVersion]: version,
  };
}
