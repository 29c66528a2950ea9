// Disk usage of stored results per user: the tasks come from the store, the sizes from their files.
import type { Store } from '../../store/store.ts';
import { runQueryTask } from '../statements/query_submission.ts';
import type { ResultStore } from './result_store.ts';

const tasksPerPage = 200;

/** Bytes by task id; tasks without stored rows are omitted. */
export async function resultUsage(
  store: Store,
  results: Pick<ResultStore, 'bytes'>,
  principalId: string,
): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (let after = ''; ; ) {
    const page = await store.db
      .selectFrom('tasks')
      .select('task_id')
      .where('owner', '=', principalId)
      .where('type', '=', runQueryTask)
      .where('task_id', '>', after)
      .orderBy('task_id')
      .limit(tasksPerPage)
      .execute();
    const bytes = await Promise.all(page.map(({ task_id }) => results.bytes(task_id)));
    for (const [i, { task_id }] of page.entries()) if ((bytes[i] as number) > 0) sizes.set(task_id, bytes[i] as number);
    if (page.length < tasksPerPage) return sizes;
    after = (page.at(-1) as { task_id: string }).task_id;
  }
}
