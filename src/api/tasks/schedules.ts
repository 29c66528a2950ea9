// The declaration of schedules.
import { exactlyOneOf, notTogether } from '../../standard/documented_limits.ts';
import { Type } from '../../standard/type.ts';
import { category, create, remove, update } from '../declare.ts';
import { searchByName } from '../search.ts';
import { getAtTop, listAtTop, renameAtTop } from '../top_level.ts';
import { changeFields, example, fields, ScheduleRecord } from './schedule_fields.ts';

const { query, cron, timeZone, priority } = example;

export const schedulesApi = category({
  name: 'schedules',
  singular: 'schedule',
  title: 'Schedules',
  doc: 'Work that runs at set times, as tasks of its owner, with the privileges of the owner at that time: SQL, or actions of the API.',
  parameter: 'schedule',
  securable: true,
  record: ScheduleRecord,
  example,
  endpoints: {
    list: listAtTop('Lists schedules by name.'),
    get: getAtTop('Shows a schedule, when it runs next and when it ran last.'),
    create: create({
      summary: 'Creates a schedule.',
      description:
        'What it does is a `query`, or a `request`: an action of the API. It runs as its owner, restricted to the scopes of the token that defined its action. The shortest interval is one minute.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: Type.Object(
        { ...changeFields, cron: fields.cron },
        { additionalProperties: false, ...exactlyOneOf('query', 'request') },
      ),
      bodyRequired: true,
      example: { body: { name: 'nightly', query, cron, timeZone, priority } },
    }),
    update: update({
      summary: 'Changes a schedule.',
      description:
        'With another `cron` or `timeZone`, or enabled again, its times are computed from now on. If someone other than its owner changes its action, the owner has to confirm it.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'CHANGE_IN_PROGRESS', 'HOST_NOT_ALLOWED'],
      body: Type.Object({ ...changeFields }, { additionalProperties: false, ...notTogether('query', 'request') }),
      example: { body: { disabled: true } },
    }),
    delete: remove({
      summary: 'Deletes a schedule. Tasks that it made go on.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
    }),
    rename: renameAtTop(ScheduleRecord, 'Renames a schedule.', 'every_night'),
    search: searchByName({ category: 'schedules', record: ScheduleRecord, example: 'nightly%' }),
  },
});
