// The handler of `move` of a catalog: checks what can be checked at once, and submits the task.
import type { catalogsApi } from '../../api/namespaces/catalogs.ts';
import { pauseSecondsDefault, retainSecondsDefault, roundsMaxDefault } from '../../api/namespaces/move_catalog.ts';
import type { MoveRequest } from '../../moves/move_plan.ts';
import { moveCatalogTask } from '../../moves/moves.ts';
import { uriOf } from '../../standard/paths.ts';
import type { HandlersOf } from '../records/handler_context.ts';
import { requireUse, requireWarehouse } from '../records/permissions.ts';
import { splitTaskOptions } from '../records/task_fields.ts';
import { accepted, acceptedTask } from '../records/task_record.ts';

export const moveCatalog: HandlersOf<typeof catalogsApi>['move'] = async ({ segments, body }, context) => {
  const { request: asked, options } = await splitTaskOptions(body, context);
  const [object] = await context.catalog.require(segments);
  const from = object.spec.warehouse;
  const { warehouse } = asked;
  await requireUse(from, context);
  await requireWarehouse(warehouse, context);
  await context.moves.requirePossible(from, warehouse);
  const request: MoveRequest = {
    objectId: object.id,
    warehouse,
    dryRun: asked.dryRun ?? false,
    retainSeconds: asked.retainSeconds ?? retainSecondsDefault,
    pauseSeconds: asked.pauseSeconds ?? pauseSecondsDefault,
    roundsMax: asked.roundsMax ?? roundsMaxDefault,
    dropUnsupportedViews: asked.dropUnsupportedViews ?? false,
    dropUnenforcedKeys: asked.dropUnenforcedKeys ?? false,
    forgetDroppedObjects: asked.forgetDroppedObjects ?? false,
  };
  const { actor, principal, version } = context.call;
  const task = { type: moveCatalogTask, principal, target: uriOf(version, segments), request, ...options } as const;
  if (request.dryRun) {
    const submissionAudit = { actor, objectId: object.id };
    return accepted(await context.tasks.submit({ ...task, guard: actor.guard, submissionAudit }), context);
  }
  const taskId = await context.catalog.beginMove(object, { to: warehouse, task, principal: actor });
  return acceptedTask(taskId, moveCatalogTask, context);
};
