// Fields of schedules, in bodies and in records.
import { documentedLimits } from '../../standard/documented_limits.ts';
import { patchOf } from '../../standard/schema/merge_patch.ts';
import { strictObject, Type } from '../../standard/type.ts';
import {
  Comment,
  describedBody,
  exampleFields,
  noNul,
  nullable,
  Owner,
  oneOf,
  PropertiesField,
  recordFields,
  Timestamp,
} from '../fields.ts';
import { sqlCharactersMax } from '../queries/statement_fields.ts';
import { enabledState } from '../states.ts';
import { PriorityField, taskFields } from '../task_fields.ts';
import { scheduledActions } from './scheduled_actions.ts';

export const missedRunsMax = 100;

export const missedRunsDefault = 10;

const Name = Type.String({ minLength: 1, maxLength: 128 });

export const QueryField = strictObject(
  {
    sql: Type.String({
      minLength: 1,
      maxLength: sqlCharactersMax,
      pattern: noNul,
      description: 'One statement: SELECT or DML.',
    }),
    parameters: Type.Optional(
      Type.Array(Type.Unknown(), { maxItems: 10_000, description: 'Values of `$1` or `?`, in order.' }),
    ),
    catalog: Type.Optional(Type.String({ ...Name, default: 'default' })),
    database: Type.Optional(Name),
    warehouse: Type.Optional(Name),
  },
  { title: 'ScheduledStatement', description: 'The statement to run.' },
);

export const ScheduledRequest = strictObject(
  {
    on: Type.String({
      minLength: 1,
      maxLength: 2048,
      [documentedLimits]: { pattern: '^/api/v[0-9]+/' },
      description:
        'The URI of the object that the action is called on, such as `/api/v2/databases/shop/tables/orders`.',
    }),
    action: oneOf(scheduledActions),
    body: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'The body of the action, without `waitSeconds`, `priority`, `after` and `notify`, which belong to the run. Secrets in it are stored encrypted and never returned.',
      }),
    ),
  },
  { title: 'ScheduledAction', description: 'The action of the API to run.' },
);

export const fields = {
  cron: Type.String({
    minLength: 1,
    maxLength: 256,
    description:
      'Minute, hour, day of the month, month, day of the week; or `@hourly`, `@daily`, `@weekly`, `@monthly`.',
  }),
  timeZone: Type.String({
    minLength: 1,
    maxLength: 64,
    description: 'A time zone of the IANA database, such as `Europe/Berlin`.',
  }),
  missedRuns: oneOf(['skip', 'once', 'all'], {
    description:
      'How missed times are handled: no run (`skip`), one run for all of them (`once`), or one run for each (`all`).',
  }),
  missedRunsMax: Type.Integer({
    minimum: 1,
    maximum: missedRunsMax,
    description: 'With `all`: the maximum number of runs, for the latest missed times.',
  }),
  priority: PriorityField,
  disabled: Type.Boolean({ description: 'Whether the schedule is disabled.' }),
};

const Notified = Type.Object(
  { host: Type.String(), signed: Type.Boolean({ description: 'Whether notifications are signed.' }) },
  { title: 'ScheduleNotification' },
);

export const ScheduleRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  query: nullable(QueryField),
  request: nullable(ScheduledRequest),
  ...fields,
  notify: nullable(Notified),
  needsConfirmation: Type.Boolean({
    description:
      'Whether the schedule does not run because a user other than its owner last changed its action; the owner confirms it by a PATCH with `query`, `request`, `notify` or `"disabled": false`.',
  }),
  nextRunAt: nullable(Timestamp),
  lastRunAt: nullable(Type.String({ format: 'date-time', description: 'The scheduled time of its last run.' })),
  lastTask: nullable(
    Type.String({
      description:
        'The URI of the task of its last run, until that task is deleted; for a refused run, of a failed task.',
    }),
  ),
  error: nullable(
    Type.String({ description: 'Why its last scheduled time passed without a run, or why a run is late.' }),
  ),
  ...enabledState,
  owner: Owner,
  ...recordFields,
});

/** The action of a schedule and who is notified, as a whole. */
export const ScheduledWork = Type.Object({
  query: Type.Optional(QueryField),
  request: Type.Optional(ScheduledRequest),
  notify: taskFields.notify,
});

/** The same in a PATCH. */
export const workPatch = {
  query: Type.Optional(patchOf(QueryField)),
  request: Type.Optional(patchOf(ScheduledRequest)),
  notify: Type.Optional(nullable(patchOf(taskFields.notify))),
};

export const changeFields = {
  ...describedBody,
  query: Type.Optional(QueryField),
  request: Type.Optional(ScheduledRequest),
  cron: Type.Optional(fields.cron),
  timeZone: Type.Optional(fields.timeZone),
  missedRuns: Type.Optional(fields.missedRuns),
  missedRunsMax: Type.Optional(fields.missedRunsMax),
  priority: Type.Optional(fields.priority),
  notify: Type.Optional(nullable(taskFields.notify)),
  disabled: Type.Optional(fields.disabled),
};

export const example = {
  name: 'nightly',
  comment: null,
  properties: {},
  query: {
    sql: 'INSERT INTO daily SELECT current_date, count(*) FROM lineorder',
    catalog: 'default',
    database: 'ssb',
  },
  request: null,
  cron: '30 2 * * *',
  timeZone: 'Europe/Berlin',
  missedRuns: 'once',
  missedRunsMax: missedRunsDefault,
  priority: 'low',
  disabled: false,
  notify: { host: 'hooks.example.com', signed: true },
  needsConfirmation: false,
  nextRunAt: '2026-02-01T01:30:00.000Z',
  lastRunAt: '2026-01-31T01:30:00.000Z',
  lastTask: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  error: null,
  state: 'enabled',
  owner: 'root',
  ...exampleFields('/api/v2/schedules/nightly'),
};
