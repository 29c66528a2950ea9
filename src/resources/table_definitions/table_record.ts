// A table as callers see it.

import { Comment, nullable, Owner, PropertiesField, recordFields } from '../../api/fields.ts';
import { engineState } from '../../api/states.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { TableSpec } from '../../model/records.ts';
import { Type } from '../../standard/type.ts';
import { last, shownDescription } from '../records/fields.ts';
import { commonFields, ownerName, type Render } from '../records/handler_context.ts';
import { engineStateOf } from '../records/states.ts';
import { ColumnFields, columnFields } from './column_record.ts';
import { Names, UniqueKey } from './table_definition.ts';

export const TableRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  columns: Type.Array(ColumnFields),
  primaryKey: Names,
  unique_key_constraints: UniqueKey,
  orderBy: Names,
  partitionBy: Names,
  distribution: Type.Object({ by: Names, buckets: Type.Integer() }),
  replicationNum: Type.Integer({ description: 'Replicas of each tablet.' }),
  ...engineState,
  owner: Owner,
  statistics: Type.Object({
    rowCount: nullable(Type.Integer()),
    dataBytes: nullable(Type.Integer({ description: 'Bytes on disk, compressed.' })),
    asOf: nullable(
      Type.String({ format: 'date-time', description: 'When this was so; a second or two behind at most.' }),
    ),
  }),
  ...recordFields,
});

export const tableRecordOf: Render = async (chain, uri, context) => {
  const object = last(chain) as CatalogObject<TableSpec>;
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
