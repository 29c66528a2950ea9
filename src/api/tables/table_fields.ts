// Fields of tables and of their columns, in bodies and in records.
import { type Immutable, type Static, strictObject, type TProperties, Type } from '../../standard/type.ts';
import { Comment, type describedBody, noNul, nullable, Owner, PropertiesField, recordFields } from '../fields.ts';
import { engineState } from '../states.ts';

export const DefaultValue = Type.Union(
  [Type.String({ maxLength: 4096, pattern: noNul }), Type.Number(), Type.Boolean()],
  {
    description:
      "A SQL literal or expression without columns: `0`, `'new'`, `current_timestamp`. JSON numbers and booleans are literals.",
  },
);

export const ColumnBody = strictObject(
  {
    name: Type.String(),
    type: Type.String({ description: 'A logical type, such as `BIGINT`, `DECIMAL(18,2)`, `ARRAY<STRING>`.' }),
    nullable: Type.Optional(Type.Boolean({ default: true })),
    defaultValue: Type.Optional(nullable(DefaultValue)),
    comment: Type.Optional(nullable(Comment)),
  },
  { title: 'ColumnDefinition' },
);

export type ColumnBody = Static<typeof ColumnBody>;

/** The maximum number of columns; an engine may support fewer. */
export const columnsMax = 10_000;

export const Names = Type.Array(Type.String(), { maxItems: columnsMax });

export const UniqueKey = Type.Array(Type.String(), {
  maxItems: 32,
  description: 'Columns whose combined values are unique; enforced by the engine.',
});

export const Distribution = strictObject(
  {
    by: Type.Optional(Names),
    buckets: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 4096, default: 1, description: 'The number of tablets of the table.' }),
    ),
  },
  { title: 'Distribution' },
);

/** Of endpoints that define the keys of a table. */
export const keysNeeded = [
  { capability: 'enforcedKeys', when: 'with a `primaryKey` or `unique_key_constraints`' },
] as const;

/** The fields of a definition other than its columns. */
export const definitionFields = {
  primaryKey: Type.Optional(nullable(Names)),
  orderBy: Type.Optional(nullable(Names)),
  partitionBy: Type.Optional(nullable(Names)),
  distribution: Type.Optional(nullable(Distribution)),
  replicationNum: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 32767,
      description:
        'The number of replicas of each tablet. In a cluster it must be the number that the cluster is set up for, which is the default; otherwise the default is 1.',
    }),
  ),
  unique_key_constraints: Type.Optional(nullable(UniqueKey)),
};

/** The statement that can define a table instead of `columns`. */
export const CreateTableSql = Type.String({
  maxLength: 1_048_576,
  pattern: noNul,
  description: 'A CREATE TABLE statement instead of `columns`; it then determines the name.',
});

/** The values of the fields; undefined: omitted. */
type Given<F extends TProperties> = { readonly [K in keyof F]?: Immutable<Static<F[K]>> | undefined };

export type DefinitionBody = Given<typeof definitionFields> & { readonly columns: readonly ColumnBody[] };
/** The definition of a table that a load creates, without its columns. */
export type NewTableDefinition = Given<typeof definitionFields & Pick<typeof describedBody, 'comment' | 'properties'>>;

export const columnFieldSchemas = {
  name: Type.String(),
  position: Type.Integer({ minimum: 1, description: 'The position of the column in the table, from 1.' }),
  type: Type.String({ description: 'The logical type in its canonical form.' }),
  nullable: Type.Boolean(),
  defaultValue: nullable(Type.String({ description: 'A SQL expression.' })),
  comment: nullable(Comment),
  isKey: Type.Boolean({ description: 'Whether it is part of the primary key.' }),
};

export const ColumnFields = Type.Object(columnFieldSchemas, { title: 'TableColumn' });

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
  replicationNum: Type.Integer({ description: 'The number of replicas of each tablet.' }),
  ...engineState,
  owner: Owner,
  statistics: Type.Object({
    rowCount: nullable(Type.Integer()),
    dataBytes: nullable(Type.Integer({ description: 'The compressed size on disk, in bytes.' })),
    asOf: nullable(
      Type.String({
        format: 'date-time',
        description: 'The time of the statistics, which are at most two seconds old.',
      }),
    ),
  }),
  ...recordFields,
});
