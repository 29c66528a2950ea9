// Computes the checksums of the columns of a table. Changes nothing.
import { formatType } from '../model/types.ts';
import type { TaskKind } from '../tasks/task.ts';
import { type ObjectTaskParts, withAdmittedTable } from './admitted_objects.ts';

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

export function checksumTableKind(parts: ObjectTaskParts): TaskKind<'checksum_table'> {
  return {
    type: checksumTableTask,
    attemptsMax: 5,
    actsAsPrincipal: true,
    async run({ request: { objectId: tableId }, principal }, { signal }) {
      const task = { tableId, principal, privilege: 'read', signal } as const;
      return withAdmittedTable(parts, task, async (engine, table, { columns }) => {
        const checksum = await engine.checksumTable({ ...table, columns }, { signal });
        const sums = columns.map(({ name, type }, i) => {
          const { nulls = 0, sums: of = [] } = checksum.columns[i] ?? {};
          return { name, type: formatType(type), nulls, sums: [...of] };
        });
        return { rowCount: checksum.rows, columns: sums };
      });
    },
  };
}
