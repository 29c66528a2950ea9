// How the engine drops and restores a table.

import { tablesApi } from '../../api/tables/tables.ts';
import { requireUnreserved } from '../records/permissions.ts';
import { dropHandler, undropHandlerByTask } from '../records/undrop.ts';
import { tableRef } from '../table_definitions/create_and_alter.ts';
import { definitionOf } from '../table_definitions/table_definition.ts';
import { tableRecordOf } from '../table_definitions/table_record.ts';

export const dropTable = dropHandler<typeof tablesApi>((chain) => {
  const [root, , { id }] = chain;
  const table = tableRef(chain);
  const { catalog, database } = table;
  return {
    warehouse: root.spec.warehouse,
    change: { kind: 'dropTable', table },
    keep: {
      change: () => ({ kind: 'hideTable', table, id }),
      purge: { kind: 'purge', catalog, hidden: [{ database, id }], databases: [] },
    },
  };
});

export const undropTable = undropHandlerByTask(tablesApi, 'undrop_table', {
  toRecord: tableRecordOf,
  check: (name, [root], context) => requireUnreserved('tables', name, root.spec.warehouse, context),
  sharesNames: ['views'],
  prepare: ({ object, name, parents: [root, database], originalDatabase }) => {
    const { id, spec } = object;
    const table = tableRef([root, database, { name }]);
    const from = originalDatabase ?? database.name;
    return { change: () => ({ kind: 'restoreTable', table, from, id, definition: definitionOf(spec) }) };
  },
});
