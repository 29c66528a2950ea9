// Links to the files of a task's result: signed again whenever a single task is read, because they expire. Lists omit them, because
// a list may contain thousands of files.
import { exportTask } from '../../query/exports/exports.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import type { ResultOf, StoredTask } from '../../tasks/task.ts';
import type { Context } from '../records/handler_context.ts';
import { runningStatements, taskRecord } from '../records/task_record.ts';

type ExportResult = ResultOf<typeof exportTask>;
type QueryFiles = NonNullable<ResultOf<typeof runQueryTask>['files']>;

export async function taskWithLinks(task: StoredTask, context: Context) {
  const record = taskRecord(task, context, await runningStatements([task], context));
  const { type, result } = task;
  if ((type !== exportTask && type !== runQueryTask) || !result?.expiresAt) return record;
  if (Date.parse(result.expiresAt) <= Date.now() || !(await context.resultAccess.isAllowed(task))) return record;
  return { ...record, result: type === exportTask ? linkedExport(result, context) : linkedQuery(result, context) };
}

function linkedExport(result: ExportResult, context: Context): ExportResult {
  const { files, manifestFileId, expiresAt } = result;
  if (manifestFileId === undefined || expiresAt === undefined) return result;
  return {
    ...result,
    files: files.map((file) =>
      file.fileId === undefined ? file : { ...file, link: linkTo(file.fileId, expiresAt, context) },
    ),
    manifestLink: linkTo(manifestFileId, expiresAt, context),
  };
}

function linkedQuery(result: ResultOf<typeof runQueryTask>, context: Context) {
  const { files, expiresAt } = result;
  return files && expiresAt ? { ...result, files: linkedFiles(files, expiresAt, context) } : result;
}

/** The files of a query with their links. */
export const linkedFiles = (files: QueryFiles, expiresAt: string, context: Context): QueryFiles =>
  files.map((file) => ({ uri: linkTo(file.fileId, expiresAt, context), ...file }));

const linkTo = (fileId: string, expiresAt: string, { files }: Context): string =>
  files.link({ fileId, expiresAt: Date.parse(expiresAt) }, 'read');
