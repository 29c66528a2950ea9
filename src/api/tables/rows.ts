// The declaration of `rows`: operations, bodies and results. The maximum size of the body of an insert is a setting.
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, list } from '../declare.ts';
import { engineCodes, Uri } from '../fields.ts';
import { tablesApi } from './tables.ts';

const rowsPerRequestMax = 1_000_000;

export const rowsApi = category({
  name: 'rows',
  singular: 'row',
  title: 'Rows',
  doc: 'The rows of a table.',
  parameter: 'row',
  parent: tablesApi,
  record: Type.Object({}, { additionalProperties: true, description: 'Values by column name.' }),
  example: { id: 1, placed_at: '2026-01-31T10:00:00' },
  endpoints: {
    list: list({
      summary: 'Lists the rows of a table in the order of the engine.',
      description:
        'Rows inserted or deleted between pages never cause another row to be skipped or repeated; an updated row may be returned again. If the engine moved rows in the file, which can happen in tables without a key after deletions, the page token is refused. Use `query` for other reads.',
      permission: { privilege: 'read', on: 'parent' },
      queued: true,
      needs: [{ capability: 'rowPositions' }],
      codes: [
        'CHANGE_IN_PROGRESS',
        'STATEMENT_TIMEOUT',
        'STATEMENT_CANCELLED',
        'MEMORY_LIMIT_EXCEEDED',
        ...engineCodes,
      ],
    }),
    create: create({
      summary: 'Inserts rows; inserts all of them or none.',
      description:
        'Each row is an object by column name (an omitted column gets its default) or an array in the order of the columns.',
      permission: { privilege: 'write', on: 'parent' },
      codes: [
        'CHANGE_IN_PROGRESS',
        'ROWS_INVALID',
        'CONSTRAINT_VIOLATED',
        'STATEMENT_CANCELLED',
        'MEMORY_LIMIT_EXCEEDED',
        ...engineCodes,
      ],
      named: false,
      bodyRequired: true,
      rowsIn: 'rows',
      queued: true,
      body: strictObject({
        rows: Type.Array(Type.Unknown(), {
          minItems: 1,
          maxItems: rowsPerRequestMax,
          description: 'Rows as objects or arrays.',
        }),
      }),
      result: Type.Object({
        rowCount: Type.Integer({ description: 'Rows inserted.' }),
        uri: Uri,
        created: Type.Boolean(),
      }),
      example: {
        body: { rows: [{ id: 1, placed_at: '2026-01-31T10:00:00' }, [2, null]] },
        result: { rowCount: 2, uri: '/api/v2/catalogs/default/databases/shop/tables/orders/rows', created: true },
      },
    }),
  },
});
