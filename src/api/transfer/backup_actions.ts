// The actions `backup` of a catalog and a database, and `restore`, which creates one from a backup.
import { objectName } from '../../standard/object_name.ts';
import { strictObject, Type } from '../../standard/type.ts';
import { action } from '../declare.ts';
import { engineCodes } from '../fields.ts';
import { taskFields } from '../task_fields.ts';
import { From, To } from './backup_locations.ts';

/** A backup or a restore reads or writes all data of an object. */
const cost = 20;
const directory = { path: '/backups/tabularium' };

/** `what`: the title of the object. */
export const backupApi = (what: string) => ({
  backup: action('object', {
    summary: `Backs up a ${what} as of one instant, while it is in use.`,
    description:
      'Always a task (202), whose id is that of the backup. Its result has `backupId`, `takenAt`, `since` (the base of the backup, or null), `databases`, `tables`, `rows`, `files`, `bytes`, and of them `filesSent` and `bytesSent`. A task that fails or is cancelled leaves no files. A backup does not contain grants and owners.',
    permission: { privilege: 'read', on: 'object' },
    codes: engineCodes,
    needs: [{ capability: 'backups' }],
    body: strictObject({ to: To, ...taskFields }, { title: 'BackupRequest' }),
    bodyRequired: true,
    task: 'backup',
    schedulable: true,
    cost,
    example: { body: { to: directory } },
  }),
});

const common = {
  name: objectName('The name of the restored object.'),
  from: From,
  backupId: Type.Optional(
    Type.String({
      pattern: '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$',
      description: 'The id of the backup; by default the newest one of the object.',
    }),
  ),
  ...taskFields,
};
const CatalogBody = strictObject({
  ...common,
  warehouse: Type.Optional(Type.String({ description: 'The warehouse that stores its data.' })),
});
const DatabaseBody = strictObject({
  ...common,
  database: Type.Optional(Type.String({ description: 'The database to restore; required for a backup of a catalog.' })),
});
const restored = {
  description:
    'Always a task (202). The object is invisible before it is complete; a task that fails or is cancelled leaves nothing. Its result has `name`, `backupId`, `takenAt`, `databases`, `tables`, `views`, `rows`, and `viewsLeft`: views that would be invalid or read what the caller may not read. The caller owns all restored objects, without grants. Restoring from a directory requires `read` on the object, or on all catalogs if it no longer exists.',
  permission: { privilege: 'create', on: 'parent' },
  codes: ['OBJECT_NOT_FOUND', 'INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS', ...engineCodes],
  bodyRequired: true,
  task: 'restore',
  cost,
} as const;

export const restoreCatalogApi = {
  restore: action('collection', {
    ...restored,
    summary: 'Creates a catalog with its contents from a backup.',
    body: CatalogBody,
    example: { body: { name: 'lake_of_monday', from: directory } },
  }),
};

export const restoreDatabaseApi = {
  restore: action('collection', {
    ...restored,
    summary: 'Creates a database with its contents from a backup of a database or of a catalog that contains it.',
    body: DatabaseBody,
    example: { body: { name: 'ssb_of_monday', from: directory, database: 'ssb' } },
  }),
};
