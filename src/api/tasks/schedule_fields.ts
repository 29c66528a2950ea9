// Fields of schedules, in bodies and in records.
import { documentedLimits } from '../../standard/documented_limits.ts';
import { Type } from '../../standard/type.ts';
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

export const QueryField = Type.Object(
  {
    sql: Type.String({
      minLength: 1,
      maxLength: sqlCharactersMax,
      pattern: noNul,
      description: 'One statement: SELECT or DML.',
    }),
    parameters: Type.Optional(
      Type.Array(Type.Unknown(), { maxItems: 10_000, description: 'Values of `$1` or `?`, in their order.' }),
    ),
    catalog: Type.Optional(Type.String({ ...Name, default: 'default' })),
    database: Type.Optional(Name),
    warehouse: Type.Optional(Name),
  },
  { title: 'ScheduledStatement', additionalProperties: false, description: 'What it does: a statement.' },
);

export const ScheduledRequest = Type.Object(
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
          'The body of the action, without `waitSeconds`, `priority`, `after` and `notify`, which belong to the run. Secrets in it are stored encrypted, and not shown again.',
      }),
    ),
  },
  { title: 'ScheduledAction', additionalProperties: false, description: 'What it does: an action of the API.' },
);

export const fields = {
  cron: Type.String({
    minLength: 1,
    maxLength: 256,
    description:
      'Minute, hour, day of the month, month, day of the week; or `@hourly`, `@daily`, `@weekly`, `@monthly`.',
  }),
  timeZone: Type.String({ minLength: 1, maxLength: 64, description: 'Of the IANA database, such as `Europe/Berlin`.' }),
  missedRuns: oneOf(['skip', 'once', 'all'], {
    description:
      'How missed times are handled: not at all (`skip`), by one run for all of them (`once`), or by a run for each (`all`).',
  }),
  missedRunsMax: Type.Integer({
    minimum: 1,
    maximum: missedRunsMax,
    description: 'With `all`: the maximum number of runs, for the last missed times.',
  }),
  priority: PriorityField,
  disabled: Type.Boolean({ description: 'Whether its times pass without a run.' }),
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
      'Whether it does not run because someone other than its owner last defined its action; the owner confirms it by a PATCH with `query`, `request`, `notify` or `"disabled": false`.',
  }),
  nextRunAt: nullable(Timestamp),
  lastRunAt: nullable(Type.String({ format: 'date-time', description: 'The time that its last run was for.' })),
  lastTask: nullable(
    Type.String({
      description: 'URI of the task of its last run, until that task is deleted; for a refused run, a failed task.',
    }),
  ),
  error: nullable(Type.String({ description: 'Why its last time passed without a run, or a run is late.' })),
  ...enabledState,
  owner: Owner,
  ...recordFields,
});

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
