// The handler of `optimize` of a table.
import type { tablesApi } from '../../api/tables/tables.ts';
import { optimizeTableTask } from '../../jobs/optimize_table.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { HandlersOf } from '../records/handler_context.ts';
import { requirePrivilege } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';

export const optimizeTable: HandlersOf<typeof tablesApi>['optimize'] = async ({ segments, body }, context) => {
  const options = await taskOptions(body, context);
  const [root, , table] = await context.catalog.require(segments);
  await requirePrivilege('use', [segment('warehouses', root.spec.warehouse)], context);
  const { actor, principal, version } = context.call;
  const task = await context.tasks.submit({
    type: optimizeTableTask,
    principal,
    guard: actor.guard,
    target: uriOf(version, segments),
    request: { objectId: table.id },
    ...options,
    submissionAudit: { actor, objectId: table.id },
  });
  return accepted(task, context);
};
