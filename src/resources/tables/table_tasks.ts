// The handlers of actions that submit a task for a table and use its warehouse: `checksum` and `optimize`.
import type { tablesApi } from '../../api/tables/tables.ts';
import { checksumTableTask } from '../../jobs/checksum_table.ts';
import { optimizeTableTask } from '../../jobs/optimize_table.ts';
import type { Accepted } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import type { Context, HandlersOf } from '../records/handler_context.ts';
import { requireUse } from '../records/permissions.ts';
import { taskOptions } from '../records/task_fields.ts';
import { accepted } from '../records/task_record.ts';

type Input = Parameters<HandlersOf<typeof tablesApi>['optimize']>[0];

const submitting =
  <Type extends typeof checksumTableTask | typeof optimizeTableTask>(type: Type) =>
  async ({ segments, body }: Pick<Input, 'segments' | 'body'>, context: Context): Promise<Accepted<Type>> => {
    const options = await taskOptions(body, context);
    const [root, , table] = await context.catalog.require(segments);
    await requireUse(root.spec.warehouse, context);
    const { actor, principal, version } = context.call;
    const task = await context.tasks.submit({
      type,
      principal,
      guard: actor.guard,
      target: uriOf(version, segments),
      request: { objectId: table.id },
      ...options,
      submissionAudit: { actor, objectId: table.id },
    });
    return accepted(task, context);
  };

export const checksumTable = submitting(checksumTableTask);
export const optimizeTable = submitting(optimizeTableTask);
