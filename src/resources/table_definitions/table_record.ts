// The record of a table.

import type { tablesApi } from '../../api/tables/tables.ts';
import type { TableSpec } from '../../model/records.ts';
import { shownDescription } from '../records/fields.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';
import { ownerName } from '../records/permissions.ts';
import { engineStateOf } from '../records/states.ts';
import { columnFields } from './column_record.ts';
import { keysAndLayoutOf } from './table_definition.ts';

export const tableRecordOf: RenderOf<typeof tablesApi> = async ([, , object], uri, context) => {
  const { name, spec, id } = object;
  const statistics = await context.catalog.statistics(id);
  return {
    name,
    ...shownDescription(spec),
    ...definitionFields(spec),
    ...engineStateOf(object),
    owner: ownerName(object, context),
    statistics: statistics ?? { rowCount: null, dataBytes: null, asOf: null },
    ...commonFields(object, uri),
  };
};

export const definitionFields = (spec: TableSpec) => ({
  columns: spec.columns.map((column, i) => columnFields(column, i, spec)),
  ...keysAndLayoutOf(spec),
});
