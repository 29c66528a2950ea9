// The action that has the engine put a table in order.

import { taskCodes, taskFields } from '../../api/task_fields.ts';
import { optimizeTableTask } from '../../jobs/optimize_table.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { accepted, action, requirePrivilege, segment } from '../records/handler_context.ts';
import { taskOptions } from '../records/task_fields.ts';
import type { TableChain } from '../table_definitions/create_and_alter.ts';

/** `pathOf`: of the table. */
export const optimizeTable = (pathOf: (path: PathParameters) => ReturnType<typeof segment>[]) =>
  action('optimize', {
    on: 'object',
    summary: 'Has the engine put a table in order: room of deleted rows, statistics for its plans.',
    description:
      'Always a task (202). Its result has `rowCount`, `dataBytes` and `dataBytesBefore`. While statements keep writing in the catalog it waits, and is tried again.',
    permission: { privilege: 'alter', on: 'object' },
    codes: ['OBJECT_NOT_FOUND', ...taskCodes],
    body: Type.Object(taskFields, { additionalProperties: false }),
    mayAccept: true,
    handle: async ({ path, body }, context) => {
      const options = await taskOptions(body, context);
      const [root, , table] = (await context.catalog.require(pathOf(path))) as TableChain;
      await requirePrivilege('use', [segment('warehouses', root.spec.warehouse)], context);
      const { actor, principal, version } = context.call;
      const task = await context.tasks.submit({
        type: optimizeTableTask,
        principal,
        guard: actor.guard,
        target: uriOf(version, pathOf(path)),
        request: { objectId: table.id },
        ...options,
        submissionAudit: { actor, objectId: table.id },
      });
      return accepted(task, context);
    },
  });
