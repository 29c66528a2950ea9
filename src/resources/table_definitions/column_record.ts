// The record of a column, in its table and on its own.

import type { ColumnSpec, TableSpec } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';

/** `index` counts from 0. */
export function columnFields(column: ColumnSpec, index: number, table: TableSpec) {
  return {
    name: column.name,
    position: index + 1,
    type: formatType(column.type),
    nullable: column.nullable,
    defaultValue: column.defaultValue ?? null,
    comment: column.comment ?? null,
    isKey: table.primaryKey.includes(column.name),
  };
}
