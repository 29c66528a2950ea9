// A table created with the rows of a query or of another table. It is not visible before it is full. It is filled by an ordinary
// statement, with the rights that the submitter has when it runs.
import type { Directory } from '../access/authorization/directory.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { Observe } from '../observe/observations.ts';
import type { Queries, QueryRequest } from '../query/statements/queries.ts';
import { actorOfTask, type TaskKind } from '../tasks/task.ts';
import { storeStatistics } from './new_table_statistics.ts';

export const createFilledTableTask = 'create_filled_table';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly create_filled_table: FillRequest;
  }
}

/** The request of the task: the statement that fills the table. */
export interface FillRequest {
  readonly fill: QueryRequest;
}

export function createFilledTableKind(parts: {
  readonly catalog: Catalog;
  readonly queries: Queries;
  readonly warehouses: Warehouses;
  readonly directory: Directory;
  readonly observe: Observe;
}): TaskKind<'create_filled_table'> {
  return {
    type: createFilledTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run(task, { signal, progress }) {
      const { taskId, principal } = task;
      const { fill } = task.request;
      const actor = actorOfTask(task);
      let rowCount: number | null = null;
      const object = await parts.catalog.runCreation(taskId, {
        signal,
        fill: async () => {
          parts.directory.requireActive(principal);
          const caller = { principal, actor, signal, progress, step: taskId, taskId };
          const { result } = await parts.queries.run(fill, caller);
          rowCount = result.rowCount;
          return undefined;
        },
      });
      await storeStatistics(parts, object);
      return { name: object.name, rowCount };
    },
    // Also after the last attempt failed: the reserved names become available at once.
    ended: async (task) => {
      if (task.state !== 'succeeded') await parts.catalog.settleTask(task.taskId);
    },
  };
}
