// The task that does a change: put into the line in the transaction that writes the change down. Whether one is needed is for who
// changes to say; what it runs is jobs/.
import type { Actor, Principal } from '../../model/principal.ts';
import { insertTask } from '../../tasks/submission.ts';
import type { TaskOfChange } from '../object.ts';
import type { CatalogContext, Tx } from './change_context.ts';

/** What comes after other tasks cannot be done at once, however little work it is. */
export function hasPrerequisites(task: TaskOfChange | undefined): boolean {
  return task?.after !== undefined && task.after.length > 0;
}

/** Throws where its submitter may have no more of them. Asked again before it is done, the request is answered with it. */
export async function addTask(
  context: CatalogContext,
  tx: Tx,
  task: TaskOfChange & { readonly principal: Principal },
  actor: Actor,
): Promise<string> {
  await context.requireTaskQuota(tx, task.principal.id);
  const { task_id } = await insertTask(tx, task, context.clock());
  if (task.notify) await context.addWebhook(tx, task_id, task.notify);
  actor.changed = true;
  await context.trail.markKeyDone(tx, actor.guard, task_id);
  return task_id;
}
