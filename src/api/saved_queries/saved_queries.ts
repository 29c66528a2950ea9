// The declaration of `saved_queries`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, remove, update } from '../declare.ts';
import {
  Comment,
  describedBody,
  exampleFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
  searchFields,
} from '../fields.ts';
import { searchBy } from '../search.ts';
import { ready, readyState } from '../states.ts';
import { getAtTop, listAtTop, renameAtTop } from '../top_level.ts';
import { queryChange, queryExample, queryFields } from './query_fields.ts';

export const chartBytesMax = 65_536;

export const chartField = nullable(
  Type.Record(Type.String(), Type.Unknown(), {
    maxProperties: 100,
    description: `How the result is drawn, at most ${chartBytesMax} bytes of JSON; the service does not interpret it.`,
  }),
  { title: 'ChartSettings' },
);

const folderPattern = '^[^/\\u0000-\\u001f\\u007f]+(/[^/\\u0000-\\u001f\\u007f]+)*$';

const Folder = Type.String({
  title: 'Folder',
  maxLength: 512,
  pattern: folderPattern,
  description:
    'Names of folders, outermost first, such as `finance/monthly`. A folder exists while it contains queries.',
});

const SavedQueryRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  folder: nullable(Folder),
  ...queryFields,
  chart: chartField,
  ...readyState,
  owner: Owner,
  ...recordFields,
});

const change = {
  ...describedBody,
  folder: Type.Optional(nullable(Folder)),
  ...queryChange,
  chart: Type.Optional(chartField),
};

const { sql, database } = queryExample;

export const savedQueriesApi = category({
  name: 'saved_queries',
  singular: 'saved_query',
  title: 'Saved queries',
  doc: 'Named queries, which are shared by grants. Running one requires the privileges on the tables that it reads.',
  parameter: 'savedQuery',
  securable: true,
  record: SavedQueryRecord,
  example: {
    name: 'revenue',
    comment: null,
    properties: {},
    folder: 'finance',
    ...queryExample,
    chart: { kind: 'line', x: 'lo_orderdate', y: ['revenue'] },
    ...ready,
    owner: 'ann',
    ...exampleFields('/api/v2/saved_queries/revenue'),
  },
  endpoints: {
    list: listAtTop('Lists saved queries by name.'),
    get: getAtTop('Shows a saved query.'),
    create: create({
      summary: 'Saves a query.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['SAVED_QUERY_QUOTA_EXCEEDED', 'CHANGE_IN_PROGRESS'],
      body: strictObject(change),
      bodyRequired: true,
      example: { body: { name: 'revenue', folder: 'finance', sql, database } },
    }),
    update: update({
      summary: 'Changes a saved query.',
      description: 'Earlier contents remain available as versions.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['SAVED_QUERY_QUOTA_EXCEEDED', 'CHANGE_IN_PROGRESS'],
      body: strictObject(change),
      example: { body: { sql: 'SELECT count(*) FROM lineorder' } },
    }),
    delete: remove({
      summary: 'Deletes a saved query and its versions.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
    }),
    rename: renameAtTop(SavedQueryRecord, 'Renames a saved query.', 'revenue_by_day'),
    search: searchBy({
      category: 'saved_queries',
      summary: 'Finds saved queries by name pattern, comment, folder and text.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      fields: {
        ...searchFields,
        folder: Type.Optional({ ...Folder, description: 'In this folder or its subfolders.' }),
        sql: Type.Optional(Type.String({ maxLength: 512, description: 'A substring of the text; case-insensitive.' })),
      },
      record: SavedQueryRecord,
      example: { namePattern: 'rev%', folder: 'finance' },
    }),
  },
});
