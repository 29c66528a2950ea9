// The declaration of `server_backups`: records, operations, bodies and results.
import { strictObject, Type } from '../../standard/type.ts';
import { category, create, remove } from '../declare.ts';
import { exampleFields, nullable, Owner, recordFields } from '../fields.ts';
import { searchByName } from '../search.ts';
import { stateField } from '../states.ts';
import { taskFields } from '../task_fields.ts';
import { getAtTop, listAtTop } from '../top_level.ts';
import { CatalogsLeftOut, ServerBackupTarget } from './backup_locations.ts';

/** Reads, or deletes, a copy of all data. */
const cost = 100;

export const ServerBackupRecord = Type.Object({
  name: Type.String(),
  backupId: Type.String({ description: 'Its name in the target.' }),
  place: Type.Unknown({ description: 'The location of its files, without credentials.' }),
  takenAt: nullable(
    Type.String({
      format: 'date-time',
      description: 'The instant of the backup, which contains all changes acknowledged before and none begun after.',
    }),
  ),
  bytes: nullable(Type.Integer({ description: 'The total size of its files.' })),
  catalogs: nullable(Type.Array(Type.String(), { description: 'The names of its catalogs at that time.' })),
  catalogsLeftOut: CatalogsLeftOut,
  release: nullable(Type.String({ description: 'The version of the software that created it.' })),
  task: Type.String({ description: 'The URI of the task that creates it, until that task is deleted.' }),
  state: stateField({
    creating: 'its task has not ended',
    ready: 'all of its files are complete',
    failed: 'its task did not succeed; it cannot be restored',
    deleting: 'it is being deleted; it cannot be restored',
  }),
  stateReason: nullable(Type.String({ description: 'The reason of the failure.' })),
  owner: Owner,
  ...recordFields,
});

const exampleName = 'before_the_upgrade';

const exampleId = '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d';

const place = { path: '/backups/tabularium' };

export const serverBackupsApi = category({
  name: 'server_backups',
  singular: 'server_backup',
  title: 'Server backups',
  doc: 'Copies of the whole server at one instant: users, grants, secrets, schedules, tasks, the audit trail and all catalogs. `tabularium restore server` creates a server from one.',
  parameter: 'serverBackup',
  securable: true,
  record: ServerBackupRecord,
  example: {
    name: exampleName,
    backupId: exampleId,
    place,
    takenAt: '2026-01-31T10:00:00.120Z',
    bytes: 73400320,
    catalogs: ['default', 'lake'],
    catalogsLeftOut: [],
    release: '0.1.0',
    task: `/api/v2/tasks/${exampleId}`,
    state: 'ready',
    stateReason: null,
    owner: 'root',
    ...exampleFields(`/api/v2/server_backups/${exampleName}`),
  },
  endpoints: {
    list: listAtTop('Lists backups of the server by name.'),
    get: getAtTop('Shows a backup of the server.'),
    create: create({
      summary: 'Backs up the whole server as of one instant, while it is in use.',
      description:
        'A task (202), whose id is that of the backup; its result has `backupId`, `takenAt`, `catalogs`, `files`, `bytes`, `catalogsLeftOut`, `secretKey` and `heldMs`: how long writes were held back. Everything is copied each time. Requires the privilege `own` on `/api/v2/server_backups`, whose holder can read everything. Without a passphrase (`TABULARIUM_BACKUP_PASSPHRASE`) no object store is accepted. PUT of an existing backup returns it (201).',
      permission: { privilege: 'own', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS', 'OBJECT_NOT_FOUND', 'CHANGE_NOT_SUPPORTED'],
      needs: [{ capability: 'catalogSnapshots', when: 'on a server with a catalog on such an engine' }],
      body: strictObject({ to: ServerBackupTarget, ...taskFields }),
      bodyRequired: true,
      nameOptional: true,
      task: 'server_backup',
      cost,
      example: { body: { name: exampleName, to: place } },
    }),
    delete: remove({
      summary: 'Deletes a backup of the server and its files; a backup in progress is cancelled first.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'REMOTE_REFUSED', 'REMOTE_UNAVAILABLE', 'HOST_NOT_ALLOWED', 'INVALID_PARAMETER'],
      query: strictObject({
        keepFiles: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Whether to delete only the record, for a target that no longer exists.',
          }),
        ),
      }),
      cost,
    }),
    search: searchByName({ category: 'server_backups', record: ServerBackupRecord, example: 'before%' }),
  },
});
