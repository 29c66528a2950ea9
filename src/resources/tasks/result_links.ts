// Links to the files of a task's result: signed anew whenever a single task is read, because they expire. Lists omit them, because
// a list may contain thousands of files.
import { exportTask } from '../../query/exports/exports.ts';
import type { StoredTask } from '../../tasks/task.ts';
import type { Context } from '../records/handler_context.ts';
import { taskRecord } from '../records/task_record.ts';

export async function taskWithLinks(task: StoredTask, context: Context) {
  const record = taskRecord(task, context);
  if (task.type !== exportTask || !task.result) return record;
  const { files, manifestFileId, expiresAt, ...manifest } = task.result;
  if (manifestFileId === undefined || expiresAt === undefined) return record;
  const until = Date.parse(expiresAt);
  if (until <= Date.now() || !(await context.resultAccess.isAllowed(task))) return record;
  const link = (fileId: string) => context.files.link({ fileId, expiresAt: until }, 'read');
  return {
    ...record,
    result: {
      ...manifest,
      manifestFileId,
      expiresAt,
      files: files.map((file) => (file.fileId === undefined ? file : { ...file, link: link(file.fileId) })),
      manifestLink: link(manifestFileId),
    },
  };
}
