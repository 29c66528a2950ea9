// The declaration of `views`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, update } from '../declare.ts';
import { dependentsApi } from '../dependents.ts';
import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  NewName,
  noNul,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../fields.ts';
import { codes as queryCodes, queryCost, sqlCharactersMax } from '../queries/statement_fields.ts';
import { searchWithDropped } from '../search.ts';
import { engineState, engineStateExample } from '../states.ts';
import { drop, undrop } from '../undrop.ts';
import { databasesApi } from './databases.ts';

const ViewRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  sql: Type.String({ description: 'The query, as sent by the caller.' }),
  columns: Type.Array(
    Type.Object({
      name: Type.String(),
      position: Type.Integer({ minimum: 1 }),
      type: Type.String({ description: 'The logical type in its canonical form.' }),
    }),
  ),
  dependsOn: Type.Array(Type.String(), {
    description: 'URIs of the tables and views that the query names and the caller may read.',
  }),
  ...engineState,
  owner: Owner,
  ...recordFields,
});

const QueryField = Type.String({
  minLength: 1,
  maxLength: sqlCharactersMax,
  pattern: noNul,
  description:
    'A single query without parameters. Unqualified names are resolved in the database of the view. For a create, it can be a CREATE VIEW statement, which then determines the name.',
});

const Comparison = Type.Object(
  {
    name: Type.String(),
    sql: Type.String({ description: 'The query that the view would have.' }),
    view: Type.Optional(ViewRecord),
  },
  { title: 'ViewComparison' },
);

const changeCodes = ['CHANGE_IN_PROGRESS', ...engineCodes] as const;

/** Further codes of endpoints that analyze a query. */
const readCodes = queryCodes.filter((code) => code !== 'PARAMETERS_INVALID' && code !== 'CONSTRAINT_VIOLATED');

export const viewsApi = category({
  name: 'views',
  singular: 'view',
  title: 'Views',
  doc: 'Queries with a name: SQL reads a view like a table. Reading one requires `read` on it and on all of its sources.',
  parameter: 'view',
  parent: databasesApi,
  securable: true,
  record: ViewRecord,
  example: {
    name: 'big_orders',
    comment: null,
    properties: {},
    sql: 'SELECT id, placed_at FROM orders WHERE total > 1000',
    columns: [
      { name: 'id', position: 1, type: 'BIGINT' },
      { name: 'placed_at', position: 2, type: 'DATETIME' },
    ],
    dependsOn: ['/api/v2/catalogs/default/databases/shop/tables/orders'],
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default/databases/shop/views/big_orders'),
  },
  endpoints: {
    list: list({
      summary: 'Lists the views of a database by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Shows a view.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Creates a view from a query or from a CREATE VIEW statement.',
      description: 'The caller must be able to run the query.',
      permission: { privilege: 'create', on: 'parent' },
      codes: [...changeCodes, ...readCodes],
      needs: [{ capability: 'views' }],
      body: strictObject({ ...describedBody, sql: QueryField }),
      textBodies: { 'application/sql': 'sql' },
      bodyRequired: true,
      nameOptional: true,
      cost: queryCost,
      example: { body: { name: 'big_orders', sql: 'SELECT id, placed_at FROM orders WHERE total > 1000' } },
    }),
    update: update({
      summary: 'Changes the query or the description of a view.',
      description:
        'The caller must be able to run the new query. A query that would make dependent views invalid is refused (`IN_USE`).',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'IN_USE', ...readCodes],
      body: strictObject({ ...describedBody, sql: Type.Optional(QueryField) }),
      cost: queryCost,
      example: { body: { sql: 'SELECT id, placed_at FROM orders WHERE total > 5000', comment: 'Over 5000' } },
    }),
    delete: drop({
      summary: 'Deletes a view. Its sources are unchanged.',
      codes: ['CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
    }),
    rename: action('object', {
      summary: 'Renames a view without dependent views.',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'IN_USE', 'SQL_INVALID', 'SQL_NOT_SUPPORTED'],
      body: NewName,
      bodyRequired: true,
      result: ViewRecord,
      example: { body: { newName: 'large_orders' } },
    }),
    compare: action('collection', {
      summary: 'Shows the query that a definition would become, and the view that has its name.',
      description: 'Nothing is changed, and the query is not analyzed: its sources need not exist.',
      permission: { privilege: 'read', on: 'parent' },
      codes: [...engineCodes, 'SQL_INVALID', 'SQL_NOT_SUPPORTED', 'OBJECT_NOT_FOUND'],
      needs: [{ capability: 'views' }],
      body: strictObject(
        {
          name: Type.Optional(Type.String({ maxLength: 128 })),
          renamedFrom: Type.Optional(
            Type.String({ maxLength: 128, description: 'The present name of the view, if it has another one.' }),
          ),
          sql: QueryField,
        },
        { title: 'CompareViewRequest' },
      ),
      bodyRequired: true,
      result: Comparison,
      example: {
        body: { sql: 'CREATE VIEW big_orders AS SELECT id FROM orders WHERE total > 1000' },
        result: { name: 'big_orders', sql: 'SELECT id FROM orders WHERE total > 1000' },
      },
    }),
    ...dependentsApi('view'),
    search: searchWithDropped({ category: 'views', record: ViewRecord, example: '%orders' }),
    undrop: undrop({ title: 'a view', record: ViewRecord, codes: readCodes }),
  },
});
