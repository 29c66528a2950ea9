// The declaration of `pages`: records, operations, bodies and results.
import { Type } from '../../standard/type.ts';
import { category, get, list } from '../declare.ts';
import { nullable, Uri } from '../fields.ts';
import { ColumnOfResult, codes } from '../queries/statement_fields.ts';
import { tasksApi } from './tasks.ts';

/** A page that cannot be computed any more responds with the failure of its statement. */
const failureCodes = codes.filter((code) => code !== 'OBJECT_NOT_FOUND');

export const pagesApi = category({
  name: 'pages',
  singular: 'page',
  title: 'Pages',
  doc: 'The pages of the result of a query task, numbered from 0.',
  parameter: 'page',
  idField: 'page',
  parent: tasksApi,
  record: Type.Object({
    columns: Type.Optional(Type.Array(ColumnOfResult, { description: 'Absent in lists.' })),
    rows: Type.Optional(Type.Array(Type.Array(Type.Unknown()), { description: 'Absent in lists.' })),
    page: Type.Integer(),
    firstRow: Type.Integer({ description: 'The number of its first row in the result, from 0.' }),
    rowCount: Type.Integer({ description: 'Rows of this page. The pages so far have `firstRow` + `rowCount` rows.' }),
    pageCount: nullable(Type.Integer({ description: 'Null while later pages are computed.' })),
    nextPage: Type.Optional(
      Type.String({
        description:
          'The URI of the next page, if there is one; of the same page if it is not complete yet and has no rows.',
      }),
    ),
    uri: Uri,
  }),
  example: {
    columns: [{ name: 'n', type: 'BIGINT' }],
    rows: [[1], [2]],
    page: 0,
    firstRow: 0,
    rowCount: 2,
    pageCount: 1,
    uri: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d/pages/0',
  },
  endpoints: {
    list: list({
      summary: 'Lists the pages of the result of a query task that are complete, without their rows.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: ['RESULT_EXPIRED', 'REMOTE_UNAVAILABLE'],
    }),
    get: get({
      summary:
        'Returns a page of the result of a query task. Waits up to 20 s for a page that is still being computed.',
      permission: { privilege: 'read', on: 'target', orSelf: true },
      codes: ['RESULT_EXPIRED', ...failureCodes],
    }),
  },
});
