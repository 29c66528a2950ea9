// The record of a table.

import type { tablesApi } from '../../api/tables/tables.ts';
import { shownDescription } from '../records/fields.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';
import { ownerName } from '../records/permissions.ts';
import { engineStateOf } from '../records/states.ts';
import { columnFields } from './column_record.ts';

export const tableRecordOf: RenderOf<typeof tablesApi> = async ([, , object], uri, context) => {
  const { name, spec, id } = object;
  const statistics = await context.catalog.statistics(id);
  return {
    name,
    ...shownDescription(spec),
    columns: spec.columns.map((column, i) => columnFields(column, i, spec)),
    primaryKey: spec.primaryKey,
    unique_key_constraints: spec.uniqueKey,
    orderBy: spec.orderBy,
    partitionBy: spec.partitionBy,
    distribution: spec.distribution,
    replicationNum: spec.replicationNum,
    ...engineStateOf(object),
    owner: ownerName(object, context),
    statistics: statistics ?? { rowCount: null, dataBytes: null, asOf: null },
    ...commonFields(object, uri),
  };
};
