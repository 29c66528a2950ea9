// The handler of `check` of a catalog: checks it while it is in use.
import type { catalogsApi } from '../../api/namespaces/catalogs.ts';
import { type CheckRequest, checkCatalogTask } from '../../jobs/check_catalog.ts';
import { uriOf } from '../../standard/paths.ts';
import type { HandlersOf } from '../records/handler_context.ts';
import { requireUse } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';

export const checkCatalog: HandlersOf<typeof catalogsApi>['check'] = async ({ segments, body }, context) => {
  const options = await taskOptions(body, context);
  const [catalog] = await context.catalog.require(segments);
  await requireUse(catalog.spec.warehouse, context);
  const { actor, principal, version } = context.call;
  const request: CheckRequest = { objectId: catalog.id };
  const task = await context.tasks.submit({
    type: checkCatalogTask,
    principal,
    guard: actor.guard,
    target: uriOf(version, segments),
    request,
    ...options,
    submissionAudit: { actor, objectId: catalog.id },
  });
  return accepted(task, context);
};
