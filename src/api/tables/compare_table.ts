// The declaration of `compare` of tables: what a definition would be as a table, and what changing the table of its name to it would do.
import { exactlyOneOf } from '../../standard/documented_limits.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { engineCodes, oneOf } from '../fields.ts';
import {
  ColumnBody,
  ColumnFields,
  CreateTableSql,
  columnsMax,
  definitionFields,
  keysNeeded,
  Names,
  TableRecord,
  UniqueKey,
} from './table_fields.ts';

const Name = Type.String({ maxLength: 128 });

const CompareBody = strictObject(
  {
    name: Type.Optional(Name),
    ...definitionFields,
    columns: Type.Optional(Type.Array(ColumnBody, { maxItems: columnsMax })),
    sql: Type.Optional(CreateTableSql),
    renamedFrom: Type.Optional(
      Type.String({ maxLength: 128, description: 'The present name of the table, if it has another one.' }),
    ),
    renamedColumns: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        maxProperties: columnsMax,
        description:
          'New names of columns by their present names. Columns that the table does not have, or has under the new name, are ignored.',
      }),
    ),
    keepColumns: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether columns of the table that the definition lacks are retained, each after the column before it.',
      }),
    ),
    warehouse: Type.Optional(
      Type.String({
        description: 'Permits a database that does not exist yet, in a catalog that is or will be in this warehouse.',
      }),
    ),
  },
  { ...exactlyOneOf('columns', 'sql'), title: 'CompareTableRequest' },
);

const Comparison = Type.Object(
  {
    name: Type.String(),
    definition: Type.Object(
      {
        columns: Type.Array(ColumnFields),
        primaryKey: Names,
        unique_key_constraints: UniqueKey,
        orderBy: Names,
        partitionBy: Names,
        distribution: TableRecord.properties.distribution,
        replicationNum: TableRecord.properties.replicationNum,
      },
      { title: 'TableDefinition', description: 'In the form of the record, with defaults filled in.' },
    ),
    undeclaredColumns: Type.Array(Type.String(), {
      description: 'The columns of the table that the definition lacks.',
    }),
    cost: Type.Optional(
      oneOf(
        ['none', 'instant', 'rewrite'],
        { description: 'What changing the columns and keys of the table takes; absent without a table.' },
        {
          none: 'the engine has nothing to do',
          instant: 'the request does it',
          rewrite: 'a task does it, because much data has to be read or written',
        },
      ),
    ),
    table: Type.Optional(TableRecord),
  },
  { title: 'TableComparison' },
);

const definition = {
  columns: [
    { name: 'id', position: 1, type: 'BIGINT', nullable: false, defaultValue: null, comment: null, isKey: true },
  ],
  primaryKey: ['id'],
  unique_key_constraints: [],
  orderBy: [],
  partitionBy: [],
  distribution: { by: [], buckets: 1 },
  replicationNum: 1,
};

export const compareTableApi = action('collection', {
  summary: 'Shows what a definition would be as a table, and what changing the table of its name to it would take.',
  description:
    'Nothing is changed. It fails as the change would, as far as that is known without reading data. Differences of `primaryKey`, `orderBy`, `partitionBy`, `distribution` and `replicationNum`, which no table can change, do not make it fail: compare `definition` with `table`.',
  permission: { privilege: 'read', on: 'parent' },
  codes: [...engineCodes, 'CHANGE_NOT_SUPPORTED', 'IN_USE', 'OBJECT_NOT_FOUND', 'SQL_INVALID', 'SQL_NOT_SUPPORTED'],
  needs: keysNeeded,
  body: CompareBody,
  bodyRequired: true,
  result: Comparison,
  example: {
    body: { name: 'orders', columns: [{ name: 'id', type: 'bigint' }], primaryKey: ['id'] },
    result: { name: 'orders', definition, undeclaredColumns: [] },
  },
});
