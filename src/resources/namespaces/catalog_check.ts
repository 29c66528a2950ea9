// The action that checks a catalog while it is in use.

import { taskCodes, taskFields } from '../../api/task_fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import { type CheckRequest, checkCatalogTask } from '../../jobs/check_catalog.ts';
import type { CatalogSpec } from '../../model/records.ts';
import type { PathParameters } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { accepted, action, requirePrivilege, segment } from '../records/handler_context.ts';
import { taskOptions } from '../records/task_fields.ts';

/** It reads all of a catalog. */
const cost = 20;

/** `pathOf`: of the catalog. */
export const checkCatalog = (pathOf: (path: PathParameters) => ReturnType<typeof segment>[]) =>
  action('check', {
    on: 'object',
    summary: 'Compares the tables of a catalog with the metadata store, and reads all of them.',
    description:
      'Always a task (202), which reads one table at a time beside other statements. Damage does not make it fail: its result has `catalog`, `sound`, `released`, `tablesRead`, `faultCount`, the first 100 `faults` (`database` and `table`, null for the file as a whole, `problem`: `damaged` or `different`, and `reason`) and `advice` (what to do, or null). `released`: the catalog was refused as damaged, its file is sound now, and it is served again.',
    permission: { privilege: 'alter', on: 'object' },
    codes: ['OBJECT_NOT_FOUND', ...taskCodes],
    body: Type.Object(taskFields, { additionalProperties: false }),
    mayAccept: true,
    cost,
    handle: async ({ path, body }, context) => {
      const options = await taskOptions(body, context);
      const [catalog] = (await context.catalog.require(pathOf(path))) as [CatalogObject<CatalogSpec>];
      await requirePrivilege('use', [segment('warehouses', catalog.spec.warehouse)], context);
      const { actor, principal, version } = context.call;
      const request: CheckRequest = { objectId: catalog.id };
      const task = await context.tasks.submit({
        type: checkCatalogTask,
        principal,
        guard: actor.guard,
        target: uriOf(version, pathOf(path)),
        request,
        ...options,
        submissionAudit: { actor, objectId: catalog.id },
      });
      return accepted(task, context);
    },
  });
