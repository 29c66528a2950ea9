// Computes the checksums of the columns of a table. Changes nothing.
import type { Catalog } from '../catalog/catalog.ts';
import type { CatalogObject } from '../catalog/object.ts';
import type { Warehouses } from '../engines/warehouses/warehouses.ts';
import type { CatalogSpec, TableSpec } from '../model/records.ts';
import { formatType } from '../model/types.ts';
import { Failure } from '../standard/failure.ts';
import type { TaskKind } from '../tasks/task.ts';

export const checksumTableTask = 'checksum_table';

declare module '../tasks/task.ts' {
  interface StoredRequests {
    readonly checksum_table: ChecksumRequest;
  }
}

export interface ChecksumRequest {
  /** Id of the table, which may have been renamed since. */
  readonly objectId: string;
}

export function checksumTableKind(parts: {
  readonly catalog: Catalog;
  readonly warehouses: Warehouses;
}): TaskKind<'checksum_table'> {
  return {
    type: checksumTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run(task, { signal }) {
      const [root, database, table] = await parts.catalog.findChain(task.request.objectId);
      if (!root || !database || !table)
        throw new Failure('OBJECT_NOT_FOUND', 'the table no longer exists', { category: 'tables' });
      const { warehouse } = (root as CatalogObject<CatalogSpec>).spec;
      const { columns } = (table as CatalogObject<TableSpec>).spec;
      const ref = { catalog: { id: root.id, name: root.name }, database: database.name, table: table.name, columns };
      const checksum = await parts.warehouses.admit(
        warehouse,
        { principal: task.principal, signal, isTask: true },
        (engine) => engine.checksumTable(ref, { signal }),
      );
      const sums = columns.map(({ name, type }, i) => {
        const { nulls = 0, sums: of = [] } = checksum.columns[i] ?? {};
        return { name, type: formatType(type), nulls, sums: [...of] };
      });
      return { rowCount: checksum.rows, columns: sums };
    },
  };
}
