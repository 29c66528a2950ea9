// The actions `backup` of a catalog and a database, and `restore`, which creates one from a backup.
import { objectName } from '../../standard/object_name.ts';
import { Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { engineCodes } from '../fields.ts';
import { taskCodes, taskFields } from '../task_fields.ts';
import { From, To } from './backup_locations.ts';

/** A backup or a restore reads or writes all data of an object. */
const cost = 20;
const codes = ['OBJECT_NOT_FOUND', ...taskCodes, ...engineCodes] as const;
const directory = { path: '/backups/tabularium' };

/** `what`: the title of the object. */
export const backupApi = (what: string) => ({
  backup: action('object', {
    summary: `Backs a ${what} up, as it is at one instant, while it is in use.`,
    description:
      'Always a task (202), whose id is that of the backup. Its result has `backupId`, `takenAt`, `since` (the base of the backup, or null), `databases`, `tables`, `rows`, `files`, `bytes`, and of them `filesSent` and `bytesSent`. A task that fails or is cancelled leaves nothing. Grants and owners are not in a backup.',
    permission: { privilege: 'read', on: 'object' },
    codes,
    body: Type.Object({ to: To, ...taskFields }, { title: 'BackupRequest', additionalProperties: false }),
    bodyRequired: true,
    task: 'backup',
    schedulable: true,
    cost,
    example: { body: { to: directory } },
  }),
});

const common = {
  name: objectName('The name that it gets.'),
  from: From,
  backupId: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
      description: 'Which backup; by default the newest that fits.',
    }),
  ),
  ...taskFields,
};
const CatalogBody = Type.Object(
  { ...common, warehouse: Type.Optional(Type.String({ description: 'The warehouse that stores its data.' })) },
  { additionalProperties: false },
);
const DatabaseBody = Type.Object(
  {
    ...common,
    database: Type.Optional(
      Type.String({ description: 'Which database of the backup; required for the backup of a catalog.' }),
    ),
  },
  { additionalProperties: false },
);
const restored = {
  description:
    'Always a task (202). The new object is invisible before it is complete, and a task that fails or is cancelled leaves nothing; its result has `name`, `backupId`, `takenAt`, `databases`, `tables`, `views`, `rows`, and `viewsLeft`: omitted views, which would be invalid there or read what the caller may not. All of it is its maker’s, and nothing is granted on it. From a directory only what the caller may `read` can be restored; what is gone, by who may `read` all catalogs.',
  permission: { privilege: 'create', on: 'parent' },
  codes: [...codes, 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
  bodyRequired: true,
  task: 'restore',
  cost,
} as const;

export const restoreCatalogApi = {
  restore: action('collection', {
    ...restored,
    summary: 'Makes a catalog, with all that is in it, from a backup.',
    body: CatalogBody,
    example: { body: { name: 'lake_of_monday', from: directory } },
  }),
};

export const restoreDatabaseApi = {
  restore: action('collection', {
    ...restored,
    summary: 'Creates a database with its contents from a backup: of a database, or of a catalog that contains it.',
    body: DatabaseBody,
    example: { body: { name: 'ssb_of_monday', from: directory, database: 'ssb' } },
  }),
};
