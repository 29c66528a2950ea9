// The handler of `checksum` of a table.
import type { tablesApi } from '../../api/tables/tables.ts';
import { checksumTableTask } from '../../jobs/checksum_table.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import type { HandlersOf } from '../records/handler_context.ts';
import { requirePrivilege } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';

export const checksumTable: HandlersOf<typeof tablesApi>['checksum'] = async ({ segments, body }, context) => {
  const options = await taskOptions(body, context);
  const [root, , table] = await context.catalog.require(segments);
  await requirePrivilege('use', [segment('warehouses', root.spec.warehouse)], context);
  const { actor, principal, version } = context.call;
  const task = await context.tasks.submit({
    type: checksumTableTask,
    principal,
    guard: actor.guard,
    target: uriOf(version, segments),
    request: { objectId: table.id },
    ...options,
    submissionAudit: { actor, objectId: table.id },
  });
  return accepted(task, context);
};
