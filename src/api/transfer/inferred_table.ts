// The definition that a load infers for a new table from a file, and its columns as requests specify them.
import { Type } from '../../standard/type.ts';
import { nullable } from '../fields.ts';
import { ColumnBody, DefaultValue, definitionFields } from '../tables/table_fields.ts';
import { Csv, columnOrigin } from './load_fields.ts';

/** A column of a table that a load creates. */
export const NewTableColumn = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 255, description: 'Of the table.' }),
    ...columnOrigin,
    type: Type.Optional(Type.String({ description: 'By default that of its source, or of its expression.' })),
    nullable: Type.Optional(Type.Boolean({ default: true })),
    defaultValue: Type.Optional(nullable(DefaultValue)),
    comment: ColumnBody.properties.comment,
  },
  { additionalProperties: false },
);

export const InferredTable = Type.Object(
  {
    table: Type.Optional(Type.String()),
    columns: Type.Array(Type.Object({ ...NewTableColumn.properties }), {
      description: 'As `columns` of the body takes them.',
    }),
    ...definitionFields,
    rows: Type.Array(Type.Array(Type.Unknown()), {
      description: 'The first rows, at most ten; values that do not fit are omitted or null.',
    }),
    format: Type.String(),
    compression: Type.String(),
    csv: Type.Optional(
      Type.Object({ ...Csv.properties }, { description: 'How the file is read, including detected options.' }),
    ),
    bytes: Type.Integer({ description: 'Of the file, unpacked.' }),
  },
  { title: 'InferredTable' },
);
