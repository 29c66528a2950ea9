// The size of the stored results of a user, as their tasks record it.
import type { TaskResultOf } from '../../api/tasks/task_types.ts';
import type { Store } from '../../store/store.ts';
import { runQueryTask } from '../statements/query_submission.ts';

const tasksPerPage = 200;

/** Bytes by task id; tasks without stored rows are omitted. */
export async function resultUsage(store: Store, principalId: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (let after = ''; ; ) {
    const page = await store.db
      .selectFrom('tasks')
      .select(['task_id', 'result'])
      .where('owner', '=', principalId)
      .where('type', '=', runQueryTask)
      .where('task_id', '>', after)
      .orderBy('task_id')
      .limit(tasksPerPage)
      .execute();
    for (const { task_id, result } of page) {
      const bytes = result === null ? 0 : rowBytesOf(JSON.parse(result) as TaskResultOf<typeof runQueryTask>);
      if (bytes > 0) sizes.set(task_id, bytes);
    }
    if (page.length < tasksPerPage) return sizes;
    after = (page.at(-1) as { task_id: string }).task_id;
  }
}

/** Rows in files count towards the quota of files. */
const rowBytesOf = ({ files, statistics }: TaskResultOf<typeof runQueryTask>): number =>
  files ? 0 : statistics.resultBytes;
