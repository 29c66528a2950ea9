// Submits the task of a change in the transaction that writes the intent. The caller decides whether a task is needed; jobs/ contains
// what it runs.
import type { Actor, Principal } from '../../model/principal.ts';
import { afterCommit } from '../../store/transactions.ts';
import { insertTask } from '../../tasks/submission.ts';
import { serverOfWarehouse } from '../../tasks/task_server.ts';
import type { TaskOfChange } from '../object.ts';
import type { CatalogContext, Tx } from './change_context.ts';

/** A change that has to wait for other tasks needs a task itself, however little work it is. */
export function hasPrerequisites(task: TaskOfChange | undefined): boolean {
  return task?.after !== undefined && task.after.length > 0;
}

/** Throws if the submitter has reached its limit of tasks. A repeated keyed request is answered with this task until it has ended. */
export async function addTask(
  context: CatalogContext,
  tx: Tx,
  task: TaskOfChange & { readonly principal: Principal },
  warehouse: string | undefined,
  actor: Actor,
): Promise<string> {
  await context.requireTaskQuota(tx, task.principal.id);
  const isOfServer = context.store.isShared && warehouse !== undefined;
  const serverId = isOfServer ? await serverOfWarehouse(tx, warehouse) : null;
  const { task_id } = await insertTask(tx, { ...task, serverId }, context.clock());
  if (task.notify) await context.addWebhook(tx, task_id, task.notify);
  afterCommit(tx, () => {
    actor.changed = true;
  });
  await context.trail.markKeyDone(tx, actor.guard, task_id);
  return task_id;
}
