// A column as records show it, in its table and by itself.

import { Comment, nullable } from '../../api/fields.ts';
import type { ColumnSpec, TableSpec } from '../../model/records.ts';
import { formatType } from '../../model/types.ts';
import { Type } from '../../standard/type.ts';

export const columnFieldSchemas = {
  name: Type.String(),
  position: Type.Integer({ minimum: 1, description: 'The place of the column in the table, from 1.' }),
  type: Type.String({ description: 'The logical type in its canonical form.' }),
  nullable: Type.Boolean(),
  defaultValue: nullable(Type.String({ description: 'A SQL expression.' })),
  comment: nullable(Comment),
  isKey: Type.Boolean({ description: 'Whether it is part of the primary key.' }),
};

export const ColumnFields = Type.Object(columnFieldSchemas);

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
