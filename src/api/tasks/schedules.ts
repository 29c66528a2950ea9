// The declaration of schedules.
import { exactlyOneOf, notTogether } from '../../standard/documented_limits.ts';
import { strictObject } from '../../standard/type.ts';
import { action, category, create, remove, update } from '../declare.ts';
import { engineCodes } from '../fields.ts';
import { searchByName } from '../search.ts';
import { getAtTop, listAtTop, renameAtTop } from '../top_level.ts';
import { changeFields, example, fields, ScheduleRecord, workPatch } from './schedule_fields.ts';

/** What an action may be answered with for the moment. */
const unavailable = [...engineCodes, 'TOO_MANY_QUERIES'] as const;

const { query, cron, timeZone, priority } = example;

export const schedulesApi = category({
  name: 'schedules',
  singular: 'schedule',
  title: 'Schedules',
  doc: 'Tasks that run at scheduled times, with the privileges that their owner has at that time: SQL statements or actions of the API.',
  parameter: 'schedule',
  securable: true,
  record: ScheduleRecord,
  example,
  endpoints: {
    list: listAtTop('Lists schedules by name.'),
    get: getAtTop('Returns a schedule with its next and its last run.'),
    create: create({
      summary: 'Creates a schedule.',
      description:
        'A schedule runs a `query`, or a `request`: an action of the API. It runs as its owner, restricted to the scopes of the token that defined its action. The shortest interval is one minute.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: strictObject({ ...changeFields, cron: fields.cron }, { ...exactlyOneOf('query', 'request') }),
      bodyRequired: true,
      example: { body: { name: 'nightly', query, cron, timeZone, priority } },
    }),
    update: update({
      summary: 'Changes a schedule.',
      description:
        'After a change of `cron` or `timeZone`, or when it is enabled again, its times are computed from now on. If a user other than its owner changes its action, the owner has to confirm it.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: strictObject({ ...changeFields, ...workPatch }, { ...notTogether('query', 'request') }),
      example: { body: { disabled: true } },
    }),
    delete: remove({
      summary: 'Deletes a schedule. Tasks that it submitted continue.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
    }),
    run: action('object', {
      summary: 'Runs a schedule now.',
      description:
        'Besides its times, which do not change, and also while it is disabled. Always a task, which has the privileges of the owner of the schedule, as at its times; a run that is refused is a task that failed.',
      permission: { privilege: 'operate', on: 'object' },
      codes: ['SCHEDULE_NOT_RUNNABLE', 'CHANGE_IN_PROGRESS', ...unavailable],
      body: strictObject({}),
      task: 'any',
      example: { body: {} },
    }),
    rename: renameAtTop(ScheduleRecord, 'Renames a schedule.', 'every_night'),
    search: searchByName({ category: 'schedules', record: ScheduleRecord, example: 'nightly%' }),
  },
});
