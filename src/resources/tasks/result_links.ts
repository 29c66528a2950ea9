// Links to the files of a task's result: signed anew whenever a single task is read, because they expire. Lists omit them, because
// a list may contain thousands of files.
import type { DownloadManifest } from '../../query/exports/export_targets.ts';
import { exportTask } from '../../query/exports/exports.ts';
import type { TaskRecord } from '../../tasks/task.ts';
import { type Context, taskRecord } from '../records/handler_context.ts';

export async function taskWithLinks(task: TaskRecord, context: Context) {
  const record = taskRecord(task, context);
  const result = task.result as Partial<DownloadManifest> | null;
  if (task.type !== exportTask || result?.manifestFileId === undefined) return record;
  const { files = [], manifestFileId, expiresAt } = result;
  const until = Date.parse(expiresAt as string);
  if (until <= Date.now() || !(await context.resultAccess.isAllowed(task))) return record;
  const link = (fileId: string) => context.files.link({ fileId, expiresAt: until }, 'read');
  return {
    ...record,
    result: {
      ...result,
      files: files.map((file) => ({ ...file, link: link(file.fileId) })),
      manifestLink: link(manifestFileId),
    },
  };
}
