// Optimizes the storage of a table. Idempotent: the work is the same however often it is restarted.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { CatalogSpec } from '../model/records.ts';
import { Failure } from '../standard/failure.ts';
import type { TaskKind } from '../tasks/task.ts';

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

export function optimizeTableKind(parts: {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
}): TaskKind<'optimize_table'> {
  return {
    type: optimizeTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run(task, { signal, progress }) {
      const { objectId } = task.request;
      const [root, database, table] = await parts.catalog.findChain(objectId);
      if (!root || !database || !table)
        throw new Failure('OBJECT_NOT_FOUND', 'the table no longer exists', { category: 'tables' });
      const { warehouse } = (root as CatalogObject<CatalogSpec>).spec;
      const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name };
      const [before, after] = await parts.warehouses.admit(
        warehouse,
        { principal: task.principal, signal, isTask: true },
        async (engine) => {
          const statistics = await engine.tableStatistics(ref);
          await engine.optimize(ref, { signal, progress });
          return [statistics, await engine.tableStatistics(ref)] as const;
        },
      );
      await parts.catalog.saveStatistics(objectId, { ...after, asOf: new Date().toISOString() });
      return { ...after, dataBytesBefore: before.dataBytes };
    },
  };
}
