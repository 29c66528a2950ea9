// Optimizes the storage of a table. Idempotent: the work is the same however often it is restarted.
import type { Catalog } from '../catalog/catalog.ts';
import type { TaskKind } from '../tasks/task.ts';
import { type ObjectTaskParts, withAdmittedTable } from './admitted_objects.ts';

export const optimizeTableTask = 'optimize_table';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly optimize_table: OptimizeRequest;
  }
}

export interface OptimizeRequest {
  /** Id of the table, which may have been renamed since. */
  readonly objectId: string;
}

export function optimizeTableKind(
  parts: ObjectTaskParts & { readonly catalog: Pick<Catalog, 'saveStatistics'> },
): TaskKind<'optimize_table'> {
  return {
    type: optimizeTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run({ request: { objectId: tableId }, principal }, { signal, progress }) {
      const task = { tableId, principal, privilege: 'alter', signal } as const;
      const [before, after] = await withAdmittedTable(parts, task, async (engine, table) => {
        const statistics = await engine.tableStatistics(table);
        await engine.optimize(table, { signal, progress });
        const optimized = await engine.tableStatistics(table);
        await parts.catalog.saveStatistics(tableId, { ...optimized, asOf: new Date().toISOString() });
        return [statistics, optimized] as const;
      });
      return { ...after, dataBytesBefore: before.dataBytes };
    },
  };
}
