// The declaration of `versions`: the same category in drafts and in saved queries.
import type { Permission } from '../../standard/endpoint.ts';
import { Type } from '../../standard/type.ts';
import { category, type DeclaredCategory, get, list } from '../declare.ts';
import { exampleFields, recordFields } from '../fields.ts';
import { stateField } from '../states.ts';
import { draftsApi } from './drafts.ts';
import { queryExample, queryFields } from './query_fields.ts';
import { chartField, savedQueriesApi } from './saved_queries.ts';

/** The versions that are stored of one object. */
export const versionsMax = 100;

const { sql, parameters, catalog, database } = queryFields;

const VersionRecord = Type.Object({
  ...recordFields,
  bytes: Type.Integer({ description: 'The size of its contents.' }),
  sql: Type.Optional({ ...sql, description: 'Absent in lists.' }),
  parameters: Type.Optional(parameters),
  catalog: Type.Optional(catalog),
  database: Type.Optional(database),
  chart: Type.Optional(chartField),
  state: stateField({ current: 'the contents of the object', superseded: 'a later version replaced it' }),
});

const versionsOf = <const P extends DeclaredCategory, const R extends Permission>(
  parent: P,
  permission: R,
  parentUri: string,
) =>
  category({
    name: 'versions',
    singular: 'version',
    title: `Versions of ${parent.title.toLowerCase()}`,
    doc: `Earlier contents of a ${parent.singular.replaceAll('_', ' ')}. At most ${versionsMax} are stored: the latest half, and of the earlier ones those that are furthest apart in time.`,
    parameter: 'version',
    idField: 'version',
    parent,
    record: VersionRecord,
    example: {
      ...queryExample,
      ...exampleFields(`${parentUri}/versions/1`),
      bytes: 160,
      state: 'current',
    },
    endpoints: {
      list: list({
        summary: 'Lists the versions of a query, newest first, without their contents.',
        permission,
      }),
      get: get({ summary: 'Shows a version of a query.', permission }),
    },
  });

export const draftVersionsApi = versionsOf(
  draftsApi,
  { privilege: 'own', on: 'caller' },
  '/api/v2/drafts/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
);
export const savedQueryVersionsApi = versionsOf(
  savedQueriesApi,
  { privilege: 'read', on: 'parent' },
  '/api/v2/saved_queries/revenue',
);
