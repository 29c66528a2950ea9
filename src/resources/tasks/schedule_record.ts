// What a schedule looks like to callers: its fields in bodies and in its record, and how one becomes the other.
import { isDeepStrictEqual } from 'node:util';
import {
  Comment,
  describedBody,
  exampleFields,
  noNul,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
} from '../../api/fields.ts';
import { sqlCharactersMax } from '../../api/queries/statement_fields.ts';
import { enabledState } from '../../api/states.ts';
import { PriorityField, taskFields } from '../../api/task_fields.ts';
import type { CatalogObject } from '../../catalog/object.ts';
import type { QueryRequest } from '../../query/statements/query_request.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import { uriOf } from '../../standard/paths.ts';
import { type Static, Type } from '../../standard/type.ts';
import { CronFault } from '../../tasks/cron.ts';
import type { ScheduleSecrets, ScheduleSpec } from '../../tasks/schedule.ts';
import { defined, describe, invalid, last, shownDescription } from '../records/fields.ts';
import { type Context, commonFields, ownerName, type Render, segment } from '../records/handler_context.ts';
import { enabledStateOf } from '../records/states.ts';
import { checkNotify } from '../records/task_fields.ts';
import { ScheduledRequest } from './scheduled_calls.ts';

const missedRunsMax = 100;
const missedRunsDefault = 10;
const Timestamp = Type.String({ format: 'date-time' });
const Name = Type.String({ minLength: 1, maxLength: 128 });

const QueryField = Type.Object(
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
  { additionalProperties: false, description: 'What it does: a statement.' },
);

export const fields = {
  cron: Type.String({
    minLength: 1,
    maxLength: 256,
    description:
      'Minute, hour, day of the month, month, day of the week; or `@hourly`, `@daily`, `@weekly`, `@monthly`.',
  }),
  timeZone: Type.String({ minLength: 1, maxLength: 64, description: 'Of the IANA database, such as `Europe/Berlin`.' }),
  missedRuns: Type.Union([Type.Literal('skip'), Type.Literal('once'), Type.Literal('all')], {
    description:
      'What becomes of times that passed while the service could not run it: nothing (`skip`), one run for all of them (`once`), or a run for each (`all`).',
  }),
  missedRunsMax: Type.Integer({
    minimum: 1,
    maximum: missedRunsMax,
    description: 'With `all`: for how many of them; the last ones.',
  }),
  priority: PriorityField,
  disabled: Type.Boolean({ description: 'Whether its times pass without a run.' }),
};

const Notified = Type.Object({
  host: Type.String(),
  signed: Type.Boolean({ description: 'Whether notices are signed.' }),
});

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
      'Whether it does not run because somebody else than its owner said last what it does; the owner confirms it by a PATCH with `query`, `request`, `notify` or `"disabled": false`.',
  }),
  nextRunAt: nullable(Timestamp),
  lastRunAt: nullable(Type.String({ format: 'date-time', description: 'The time that its last run was for.' })),
  lastTask: nullable(
    Type.String({
      description:
        'URI of the task of its last run, which is deleted in its time; of one that was refused, a task that failed.',
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
const Change = Type.Object(changeFields);

export type Schedule = CatalogObject<ScheduleSpec>;
export type ScheduleChange = {
  readonly [K in keyof Omit<Static<typeof Change>, 'owner'>]?: Static<typeof Change>[K] | undefined;
};

const timeText = (ms: number | null | undefined) => (typeof ms === 'number' ? new Date(ms).toISOString() : null);

export const asSchedule: Render<{ readonly uri: string }> = async (chain, uri, context) => {
  const object = last(chain) as Schedule;
  const { cron, timeZone, missedRuns, missedRunsMax, priority, notify, disabled, task, call, confirmedBy } =
    object.spec;
  const { numbers: _numbers, ...query } = (task?.request ?? {}) as Partial<QueryRequest>;
  const times = await context.schedules.timesOf(object.id);
  const lastTask = times?.last_task_id;
  return {
    name: object.name,
    ...shownDescription(object.spec),
    query: task ? query : null,
    request: call ?? null,
    cron,
    timeZone,
    missedRuns,
    missedRunsMax,
    priority,
    disabled,
    notify: notify ?? null,
    needsConfirmation: confirmedBy.id !== object.owner,
    nextRunAt: timeText(times?.next_at),
    lastRunAt: timeText(times?.last_at),
    lastTask: lastTask ? uriOf(context.call.version, [segment('tasks', lastTask)]) : null,
    error: times?.error ?? null,
    ...enabledStateOf(disabled),
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

/** What becomes of a schedule, and of what is not shown of it; `secrets` undefined: they stay as they are. */
export interface Changed {
  readonly spec: ScheduleSpec;
  readonly secrets: ScheduleSecrets | undefined;
}

/** Throws INVALID_PARAMETER where its times cannot be told, or never come, or what it does could not be asked for; HOST_NOT_ALLOWED. */
export function changed(
  before: ScheduleSpec,
  kept: ScheduleSecrets,
  change: ScheduleChange,
  context: Context,
): Changed {
  const { comment, properties, query, request, notify, ...rest } = change;
  if (query && request) throw invalid('/request', 'exclusive', 'says what it does, or `query` does; not both');
  if (notify) checkNotify(notify, context);
  const asked = request && context.checkCall(request);
  const isConfirmed = query || request || notify !== undefined || change.disabled === false;
  const { task, call, ...others } = before;
  const spec: ScheduleSpec = {
    ...describe<ScheduleSpec>(others as ScheduleSpec, defined({ comment, properties })),
    ...defined(rest as Partial<ScheduleSpec>),
    ...(query ? { task: taskOf(query) } : asked ? { call: asked.shown } : defined({ task, call })),
    ...(notify === undefined ? {} : { notify: notify ? shownOf(notify) : undefined }),
    ...(isConfirmed ? { confirmedBy: callerOf(context) } : {}),
  };
  requireTimes(spec, context);
  const body = asked && !isDeepStrictEqual(asked.body, asked.shown.body) ? asked.body : undefined;
  const isTouched = query !== undefined || request !== undefined || notify !== undefined;
  const secrets = {
    notify: notify === undefined ? kept.notify : (notify ?? undefined),
    body: query || request ? body : kept.body,
  };
  return { spec, secrets: isTouched ? secrets : undefined };
}

function requireTimes(spec: ScheduleSpec, context: Context): void {
  try {
    if (context.schedules.hasAnyOccurrence(spec)) return;
  } catch (error) {
    if (error instanceof CronFault) throw invalid(`/${error.field}`, 'time', error.message);
    throw error;
  }
  throw invalid('/cron', 'time', 'names a time that never comes');
}

const shownOf = ({ url, secret }: { readonly url: string; readonly secret?: string }) => ({
  host: new URL(url).host,
  signed: secret !== undefined,
});

function taskOf(query: Static<typeof QueryField>): NonNullable<ScheduleSpec['task']> {
  return { type: runQueryTask, request: { catalog: 'default', ...query, numbers: 'number' } };
}

function callerOf({ call }: Context): ScheduleSpec['confirmedBy'] {
  const { id, scopes } = call.principal;
  return { id, ...(scopes ? { scopes } : {}) };
}

/** Whether its times are to be counted anew. */
export function isRetimed(before: ScheduleSpec, after: ScheduleSpec): boolean {
  return (['cron', 'timeZone', 'disabled'] as const).some((field) => before[field] !== after[field]);
}

export const nothing: ScheduleSpec = {
  cron: '',
  timeZone: 'UTC',
  missedRuns: 'once',
  missedRunsMax: missedRunsDefault,
  priority: 'normal',
  disabled: false,
  confirmedBy: { id: '' },
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
