// The declaration of `catalogs`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { action, category, create, get, list, update } from '../declare.ts';
import {
  Comment,
  describedBody,
  engineCodes,
  exampleFields,
  NewName,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../fields.ts';
import { sqlActionsApi } from '../queries/sql_actions.ts';
import { searchWithDropped } from '../search.ts';
import { engineState, engineStateExample, engineStates, stateField } from '../states.ts';
import { taskFields } from '../task_fields.ts';
import { backupApi, restoreCatalogApi } from '../transfer/backup_actions.ts';
import { exportQueryApi } from '../transfer/export_actions.ts';
import { dropCascading, undrop } from '../undrop.ts';
import { browse } from './browse.ts';
import { moveCatalogApi } from './move_catalog.ts';

/** The catalog of paths that omit it (rest-standard A1). */
export const defaultCatalogName = 'default';
export const defaultWarehouseName = 'default';

const CatalogRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  warehouse: Type.String({ description: 'The warehouse that stores its data and runs its SQL.' }),
  ...engineState,
  state: stateField({ ...engineStates, damaged: 'its file is missing, damaged or older than acknowledged work' }),
  owner: Owner,
  ...recordFields,
});

/** `what`: a noun with its article. */
export const renamedDoc = (what: string) =>
  `${what} that contains views, or sources of other views, cannot be renamed (\`IN_USE\`), because their queries contain its name.`;

/** The check reads the whole catalog. */
const checkCost = 20;

export const catalogsApi = category({
  name: 'catalogs',
  singular: 'catalog',
  title: 'Catalogs',
  doc: 'The top of the namespace: a catalog contains databases, and its data is stored in one warehouse.',
  parameter: 'catalog',
  securable: true,
  record: CatalogRecord,
  example: {
    name: 'default',
    comment: null,
    properties: {},
    warehouse: 'default',
    ...engineStateExample,
    owner: 'root',
    ...exampleFields('/api/v2/catalogs/default'),
  },
  endpoints: {
    list: list({
      summary: 'Lists catalogs by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
    }),
    get: get({
      summary: 'Shows a catalog.',
      permission: { privilege: 'read', on: 'object' },
    }),
    create: create({
      summary: 'Creates a catalog.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS', ...engineCodes],
      body: strictObject({
        ...describedBody,
        warehouse: Type.Optional(
          Type.String({ default: defaultWarehouseName, description: 'The warehouse that stores its data.' }),
        ),
      }),
      example: { body: { name: 'lake', comment: 'Raw data' } },
    }),
    update: update({
      summary: 'Changes comment, properties or owner of a catalog.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', ...engineCodes],
      body: strictObject({ ...describedBody }),
      example: { body: { comment: 'Raw data of 2026', expectedVersion: 1 } },
    }),
    delete: dropCascading({
      summary: 'Deletes a catalog; with `cascade=true` with its contents.',
      codes: ['NOT_EMPTY', 'IN_USE', 'OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS', ...engineCodes],
    }),
    rename: action('object', {
      summary: 'Renames a catalog.',
      description: renamedDoc('A catalog'),
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_PROTECTED', 'CHANGE_IN_PROGRESS', 'IN_USE', ...engineCodes],
      body: NewName,
      bodyRequired: true,
      result: CatalogRecord,
      example: { body: { newName: 'archive' } },
    }),
    browse: browse('catalogs'),
    search: searchWithDropped({ category: 'catalogs', record: CatalogRecord, example: 'ar%' }),
    undrop: undrop({ title: 'a catalog', record: CatalogRecord }),
    ...sqlActionsApi('catalog'),
    ...exportQueryApi('catalog'),
    ...backupApi('catalog'),
    check: action('object', {
      summary: 'Compares the tables of a catalog with the metadata store, and reads all of them.',
      description:
        'Always a task (202), which reads one table at a time while other statements run. Damage does not make it fail: its result has `catalog`, `sound`, `released`, `tablesRead`, `faultCount`, the first 100 `faults` (`database` and `table`, null for the file as a whole, `problem`: `damaged` or `different`, and `reason`) and `advice` (what to do, or null). `released`: the catalog was refused as damaged, and is available again because its file is intact.',
      permission: { privilege: 'alter', on: 'object' },
      body: strictObject(taskFields),
      task: 'check_catalog',
      schedulable: true,
      cost: checkCost,
    }),
    move: moveCatalogApi,
    ...restoreCatalogApi,
  },
});
