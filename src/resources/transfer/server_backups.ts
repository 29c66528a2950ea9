// Backups of the whole server: made by a task, recorded here, deleted with their files. They are restored by a command, not by the API.

import { exampleFields, nullable, Owner, recordFields } from '../../api/fields.ts';
import { stateField } from '../../api/states.ts';
import type { ServerBackup } from '../../backups/server/server_backups.ts';
import type { Category } from '../../standard/endpoint.ts';
import { uriOf } from '../../standard/paths.ts';
import { Type } from '../../standard/type.ts';
import { last } from '../records/fields.ts';
import {
  accepted,
  type Context,
  commonFields,
  create,
  deleted,
  ownerName,
  type Render,
  remove,
  requireTask,
  segment,
} from '../records/handler_context.ts';
import { redactedTarget } from '../records/request_redaction.ts';
import { searchOf } from '../records/search.ts';
import { taskFields, taskOptions, taskCodes as usualCodes } from '../records/task_fields.ts';
import { topLevelCategory } from '../records/top_level_category.ts';
import { placeOf, ServerPlace } from './backup_actions.ts';

/** It reads, or deletes, a copy of all data. */
const cost = 100;

const ServerBackupRecord = Type.Object({
  name: Type.String(),
  backupId: Type.String({ description: 'What it is called in its place.' }),
  place: Type.Unknown({ description: 'Where its files are, without keys.' }),
  takenAt: nullable(
    Type.String({
      format: 'date-time',
      description: 'The instant that it is of: what was acknowledged before is in it, what was begun after is not.',
    }),
  ),
  bytes: nullable(Type.Integer({ description: 'Of all its files.' })),
  catalogs: nullable(Type.Array(Type.String(), { description: 'Names of the catalogs in it, as they were.' })),
  catalogsLeftOut: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() }), {
    description: 'Damaged catalogs, whose data is not in it.',
  }),
  release: nullable(Type.String({ description: 'Of the software that made it.' })),
  task: Type.String({ description: 'URI of the task that makes it, which is deleted in its time.' }),
  state: stateField({
    creating: 'its task has not ended',
    ready: 'all its files are in their place',
    failed: 'its task did not succeed; it cannot be restored',
    deleting: 'its deletion was begun; it cannot be restored',
  }),
  stateReason: nullable(Type.String({ description: 'Why it failed.' })),
  owner: Owner,
  ...recordFields,
});

const toRecord: Render = async (chain, uri, context) => {
  const object = last(chain) as ServerBackup;
  const { backupId, to, status, reason, takenAt, bytes, catalogs, catalogsLeftOut, release } = object.spec;
  return {
    name: object.name,
    backupId,
    place: redactedTarget(to),
    takenAt: takenAt ?? null,
    bytes: bytes ?? null,
    catalogs: catalogs ?? null,
    catalogsLeftOut: catalogsLeftOut ?? [],
    release: release ?? null,
    task: uriOf(context.call.version, [segment('tasks', backupId)]),
    state: status,
    stateReason: reason ?? null,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

const standing = topLevelCategory({
  category: 'server_backups',
  parameter: 'serverBackup',
  record: ServerBackupRecord,
  toRecord,
});
const { pathOf } = standing;
const exampleName = 'before_the_upgrade';
const exampleId = '019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d';
const place = { path: '/backups/tabularium' };

export const serverBackups: Category<Context> = {
  name: 'server_backups',
  singular: 'server_backup',
  title: 'Server backups',
  doc: 'Copies of the whole server at one instant: users, grants, secrets, schedules, tasks, the audit trail and all catalogs. `tabularium restore server` makes a server of one.',
  parameter: 'serverBackup',
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
  endpoints: [
    standing.list('Lists backups of the server by name.'),
    standing.get('Shows a backup of the server.'),
    create({
      summary: 'Backs the whole server up, as it is at one instant, while it is in use.',
      description:
        'A task (202), whose id is that of the backup; its result has `backupId`, `takenAt`, `catalogs`, `files`, `bytes`, `catalogsLeftOut`, `secretKey` and `heldMs`: how long writes were held back. All of it is copied each time. It needs the privilege `own` on `/api/v2/server_backups`: who has it can read everything. Without a passphrase (`TABULARIUM_BACKUP_PASSPHRASE`) no object store is accepted. PUT of one that exists returns it (201).',
      permission: { privilege: 'own', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS', 'OBJECT_NOT_FOUND', ...usualCodes],
      body: Type.Object({ to: ServerPlace, ...taskFields }, { additionalProperties: false }),
      bodyRequired: true,
      nameOptional: true,
      mayAccept: true,
      cost,
      example: { body: { name: exampleName, to: place } },
      handle: async ({ body, ifExists }, context) => {
        const { serverBackups: backups, call } = context;
        const { principal, actor, version } = call;
        const { name, to } = body as typeof body & { name?: string };
        const { asked, credentials } = placeOf(to);
        const options = await taskOptions(body, context);
        const target = (called: string) => uriOf(version, [segment('server_backups', called)]);
        const task = (called: string) => ({ principal, guard: actor.guard, target: target(called), ...options });
        const { object, taskId } = await backups.submit({ name, to: asked, credentials, ifExists, task }, actor);
        if (taskId === undefined) return standing.createdAs(object, false, context);
        return accepted(await requireTask(taskId, context), context);
      },
    }),
    remove({
      summary: 'Deletes a backup of the server and its files; one that is being made is cancelled first.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'REMOTE_REFUSED', 'REMOTE_UNAVAILABLE', 'HOST_NOT_ALLOWED', 'INVALID_PARAMETER'],
      query: Type.Object(
        {
          keepFiles: Type.Optional(
            Type.Boolean({ default: false, description: 'Deletes the record alone: for a place that is gone.' }),
          ),
        },
        { additionalProperties: false },
      ),
      cost,
      handle: async ({ path, query }, context) => {
        const [object] = ((await context.catalog.find(pathOf(path))) ?? []) as [ServerBackup?];
        if (!object) return deleted(false);
        return deleted(await context.serverBackups.remove(object, query.keepFiles ?? false, context.call.actor));
      },
    }),
    searchOf({ category: 'server_backups', record: ServerBackupRecord, toRecord, example: 'before%' }),
  ],
};
