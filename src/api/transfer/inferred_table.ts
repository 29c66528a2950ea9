// The definition that a load infers for a new table from a file, and its columns as requests specify them.
import { strictObject, Type } from '../../standard/type.ts';
import { nullable } from '../fields.ts';
import { ColumnBody, DefaultValue, definitionFields } from '../tables/table_fields.ts';
import { Csv, columnOrigin } from './load_fields.ts';

/** A column of a table that a load creates. */
export const NewTableColumn = strictObject({
  name: Type.String({ minLength: 1, maxLength: 255, description: 'The name of the column.' }),
  ...columnOrigin,
  type: Type.Optional(
    Type.String({ description: 'The logical type; by default that of the source or of the expression.' }),
  ),
  nullable: Type.Optional(Type.Boolean({ default: true })),
  defaultValue: Type.Optional(nullable(DefaultValue)),
  comment: ColumnBody.properties.comment,
});

export const InferredTable = Type.Object(
  {
    table: Type.Optional(Type.String()),
    columns: Type.Array(Type.Object({ ...NewTableColumn.properties }), {
      description: 'In the format of `columns` in the body.',
    }),
    ...definitionFields,
    rows: Type.Array(Type.Array(Type.Unknown()), {
      description: 'The first rows, at most ten; values that do not fit are omitted or null.',
    }),
    sample: Type.Optional(
      Type.Object(
        { rows: Type.Integer(), rowsRejected: Type.Integer() },
        { description: 'Of CSV: the rows at its beginning, and how many of them do not fit.' },
      ),
    ),
    format: Type.String(),
    compression: Type.String(),
    csv: Type.Optional(
      Type.Object({ ...Csv.properties }, { description: 'How the file is read, including detected options.' }),
    ),
    bytes: Type.Integer({ description: 'The uncompressed size of the file.' }),
  },
  { title: 'InferredTable' },
);
