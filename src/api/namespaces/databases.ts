// The declaration of `databases`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, update } from '../declare.ts';
import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../fields.ts';
import { sqlActionsApi } from '../queries/sql_actions.ts';
import { searchWithDropped } from '../search.ts';
import { engineState, engineStateExample } from '../states.ts';
import { NewNameByTask, sometimesByTask } from '../task_fields.ts';
import { backupApi, restoreDatabaseApi } from '../transfer/backup_actions.ts';
import { exportQueryApi } from '../transfer/export_actions.ts';
import { loadDatabaseApi } from '../transfer/load_database.ts';
import { dropCascading, undropByTask } from '../undrop.ts';
import { browse } from './browse.ts';
import { catalogsApi, defaultCatalogName, renamedDoc } from './catalogs.ts';

const DatabaseRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  tableCount: Type.Integer({ description: 'The number of its tables.' }),
  viewCount: Type.Integer({ description: 'The number of its views.' }),
  ...engineState,
  owner: Owner,
  ...recordFields,
});

const changeCodes = ['CHANGE_IN_PROGRESS', ...engineCodes] as const;

export const databasesApi = category({
  name: 'databases',
  singular: 'database',
  title: 'Databases',
  doc: 'The parts of a catalog: a database contains tables and is the default namespace of SQL sent to it.',
  parameter: 'database',
  parent: catalogsApi,
  parentDefault: defaultCatalogName,
  securable: true,
  record: DatabaseRecord,
  example: {
    name: 'ssb',
    comment: null,
    properties: {},
    tableCount: 5,
    viewCount: 0,
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default/databases/ssb'),
  },
  endpoints: {
    list: list({
      summary: 'Lists the databases of a catalog by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Shows a database.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Creates a database.',
      permission: { privilege: 'create', on: 'parent' },
      codes: [...changeCodes],
      body: strictObject(describedBody),
      example: { body: { name: 'ssb', comment: 'Star Schema Benchmark' } },
    }),
    update: update({
      summary: 'Changes comment, properties or owner of a database.',
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes],
      body: strictObject({ ...describedBody }),
      example: { body: { comment: null, properties: { team: 'finance' } } },
    }),
    delete: dropCascading({
      summary: 'Deletes a database; with `cascade=true` its tables and views too.',
      codes: ['NOT_EMPTY', 'IN_USE', 'CHANGE_IN_PROGRESS', ...engineCodes],
    }),
    rename: action('object', {
      summary: 'Renames a database.',
      description: sometimesByTask(
        `An engine that cannot rename a database moves its tables: a large one is renamed by a task (202). ${renamedDoc('A database')}`,
      ),
      permission: { privilege: 'alter', on: 'object' },
      codes: [...changeCodes, 'IN_USE'],
      body: NewNameByTask,
      bodyRequired: true,
      result: DatabaseRecord,
      task: 'rename_database',
      example: { body: { newName: 'ssb_2026' } },
    }),
    browse: browse('databases'),
    search: searchWithDropped({ category: 'databases', record: DatabaseRecord, example: 'ss%' }),
    undrop: undropByTask('undrop_database', { title: 'a database', record: DatabaseRecord }),
    ...sqlActionsApi('database'),
    ...exportQueryApi('database'),
    ...backupApi('database'),
    ...restoreDatabaseApi,
    ...loadDatabaseApi,
  },
});
