// Schedules: SQL that runs by itself, at the times of a cron expression in a time zone, as a task of the schedule's owner.
import { type Static, Type } from 'typebox';
import type { CatalogObject } from '../catalog/object.ts';
import type { QueryRequest } from '../query/queries.ts';
import { runQueryTask } from '../query/submit.ts';
import type { Category, PathParameters } from '../standard/endpoint.ts';
import { uriOf } from '../standard/paths.ts';
import { CronFault } from '../tasks/cron.ts';
import type { ScheduleSpec } from '../tasks/schedules.ts';
import {
  type Context,
  commonFields,
  create,
  created,
  deleted,
  found,
  freshPage,
  get,
  list,
  newOwner,
  ownerId,
  ownerName,
  type Render,
  remove,
  render,
  segment,
  update,
  updated,
} from './context.ts';
import {
  Comment,
  defined,
  describe,
  describedBody,
  ExpectedVersion,
  exampleFields,
  invalid,
  last,
  noNul,
  nullable,
  Owner,
  PropertiesField,
  recordFields,
  shownDescription,
} from './fields.ts';
import { sqlCharactersMax } from './sql_actions.ts';
import { PriorityField } from './task_fields.ts';

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
  { additionalProperties: false, description: 'What it runs.' },
);

const fields = {
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

const ScheduleRecord = Type.Object({
  name: Type.String(),
  comment: nullable(Comment),
  properties: PropertiesField,
  query: QueryField,
  ...fields,
  needsConfirmation: Type.Boolean({
    description:
      'Whether it does not run because somebody else than its owner said last what it does; the owner confirms it by a PATCH with `query` or `"disabled": false`.',
  }),
  nextRunAt: nullable(Timestamp),
  lastRunAt: nullable(Type.String({ format: 'date-time', description: 'The time that its last run was for.' })),
  lastTask: nullable(Type.String({ description: 'URI of the task of its last run, which is deleted in its time.' })),
  error: nullable(Type.String({ description: 'Why its last time passed without a run, or a run is late.' })),
  owner: Owner,
  ...recordFields,
});

const changeFields = {
  ...describedBody,
  query: Type.Optional(QueryField),
  cron: Type.Optional(fields.cron),
  timeZone: Type.Optional(fields.timeZone),
  missedRuns: Type.Optional(fields.missedRuns),
  missedRunsMax: Type.Optional(fields.missedRunsMax),
  priority: Type.Optional(fields.priority),
  disabled: Type.Optional(fields.disabled),
};
const ChangeBody = Type.Object(
  { ...changeFields, expectedVersion: Type.Optional(ExpectedVersion) },
  { additionalProperties: false },
);

type Schedule = CatalogObject<ScheduleSpec>;
const pathOf = (path: PathParameters) => [segment('schedules', path.schedule as string)];
const timeText = (ms: number | null | undefined) => (typeof ms === 'number' ? new Date(ms).toISOString() : null);

const as: Render = async (chain, uri, context) => {
  const object = last(chain) as Schedule;
  const { cron, timeZone, missedRuns, missedRunsMax, priority, disabled, task, confirmedBy } = object.spec;
  const { numbers: _numbers, ...query } = task.request as QueryRequest;
  const times = await context.schedules.timesOf(object.id);
  const lastTask = times?.last_task_id;
  return {
    name: object.name,
    ...shownDescription(object.spec),
    query,
    cron,
    timeZone,
    missedRuns,
    missedRunsMax,
    priority,
    disabled,
    needsConfirmation: confirmedBy.id !== object.owner,
    nextRunAt: timeText(times?.next_at),
    lastRunAt: timeText(times?.last_at),
    lastTask: lastTask ? uriOf(context.call.version, [segment('tasks', lastTask)]) : null,
    error: times?.error ?? null,
    owner: ownerName(object, context),
    ...commonFields(object, uri),
  };
};

type Asked = Omit<Static<typeof ChangeBody>, 'owner' | 'expectedVersion'>;
type Change = { readonly [K in keyof Asked]?: Asked[K] | undefined };

/** Throws INVALID_PARAMETER where its times cannot be told, or never come. */
function specOf(before: ScheduleSpec, change: Change, context: Context): ScheduleSpec {
  const { comment, properties, query, ...rest } = change;
  const spec: ScheduleSpec = {
    ...describe<ScheduleSpec>(before, defined({ comment, properties })),
    ...defined(rest as Partial<ScheduleSpec>),
    ...(query ? { task: taskOf(query) } : {}),
    ...(query || change.disabled === false ? { confirmedBy: callerOf(context) } : {}),
  };
  try {
    if (context.schedules.everRuns(spec)) return spec;
  } catch (error) {
    if (error instanceof CronFault) throw invalid(`/${error.field}`, 'time', error.message);
    throw error;
  }
  throw invalid('/cron', 'time', 'names a time that never comes');
}

function taskOf(query: Static<typeof QueryField>): ScheduleSpec['task'] {
  return { type: runQueryTask, request: { catalog: 'default', ...query, numbers: 'number' } };
}

function callerOf({ call }: Context): ScheduleSpec['confirmedBy'] {
  const { id, scopes } = call.principal;
  return { id, ...(scopes ? { scopes } : {}) };
}

/** Whether its times are to be counted anew. */
function isRetimed(before: ScheduleSpec, after: ScheduleSpec): boolean {
  return (['cron', 'timeZone', 'disabled'] as const).some((field) => before[field] !== after[field]);
}

const nothing: ScheduleSpec = {
  cron: '',
  timeZone: 'UTC',
  missedRuns: 'once',
  missedRunsMax: missedRunsDefault,
  priority: 'normal',
  disabled: false,
  task: { type: runQueryTask, request: null },
  confirmedBy: { id: '' },
};

const example = {
  name: 'nightly',
  comment: null,
  properties: {},
  query: {
    sql: 'INSERT INTO daily SELECT current_date, count(*) FROM lineorder',
    catalog: 'default',
    database: 'ssb',
  },
  cron: '30 2 * * *',
  timeZone: 'Europe/Berlin',
  missedRuns: 'once',
  missedRunsMax: missedRunsDefault,
  priority: 'low',
  disabled: false,
  needsConfirmation: false,
  nextRunAt: '2026-02-01T01:30:00.000Z',
  lastRunAt: '2026-01-31T01:30:00.000Z',
  lastTask: '/api/v2/tasks/019aa0b4-7c1e-7d3a-9c55-0f6c1a2b3c4d',
  error: null,
  owner: 'root',
  ...exampleFields('/api/v2/schedules/nightly'),
};
const { query, cron, timeZone, priority } = example;

export const schedules: Category<Context> = {
  name: 'schedules',
  singular: 'schedule',
  title: 'Schedules',
  doc: 'SQL that runs by itself at set times, as a task of its owner, with the rights that the owner has then.',
  parameter: 'schedule',
  record: ScheduleRecord,
  example,
  endpoints: [
    list({
      summary: 'Lists schedules by name.',
      permission: { privilege: 'read', on: 'parent', orWithin: true },
      handle: ({ page: at }, context) => freshPage([], 'schedules', at, context, as),
    }),
    get({
      summary: 'Shows a schedule, when it runs next and when it ran last.',
      permission: { privilege: 'read', on: 'object' },
      handle: async ({ path }, context) =>
        found(await render(pathOf(path), await context.catalog.require(pathOf(path)), context, as)),
    }),
    create({
      summary: 'Creates a schedule.',
      description:
        'It runs as its owner, and no further than the token may that says what it does. A minute is the shortest interval.',
      permission: { privilege: 'create', on: 'parent' },
      codes: ['INVALID_NAME', 'OBJECT_ALREADY_EXISTS', 'CHANGE_IN_PROGRESS'],
      body: Type.Object({ ...changeFields, query: QueryField, cron: fields.cron }, { additionalProperties: false }),
      bodyRequired: true,
      example: { body: { name: 'nightly', query, cron, timeZone, priority } },
      handle: async ({ body, ifExists }, context) => {
        const { name, owner, ...change } = body as typeof body & { name: string };
        const spec = specOf(nothing, change, context);
        const { object, created: made } = await context.catalog.create({
          parent: null,
          category: 'schedules',
          name,
          spec,
          owner: ownerId(owner, context),
          principal: context.call.actor,
          ifExists,
          also: (tx, id) => context.schedules.setTimes(tx, id, spec),
        });
        if (made) context.schedules.changed();
        const at = [segment('schedules', object.name)];
        const record = (await render(at, [object], context, as)) as { uri: string };
        return created(record, made, record.uri);
      },
    }),
    update({
      summary: 'Changes a schedule.',
      description:
        'With another `cron` or `timeZone`, or enabled again, its times count from now on. What somebody else than its owner makes it do, the owner has to confirm.',
      permission: { privilege: 'alter', on: 'object' },
      codes: ['OBJECT_NOT_FOUND', 'VERSION_CONFLICT', 'CHANGE_IN_PROGRESS'],
      body: ChangeBody,
      example: { body: { disabled: true } },
      handle: async ({ path, body }, context) => {
        const [object] = (await context.catalog.require(pathOf(path))) as [Schedule];
        const { owner, expectedVersion, ...change } = body;
        const spec = specOf(object.spec, change, context);
        const changed = await context.catalog.update(object, {
          spec,
          owner: await newOwner(owner, pathOf(path), context),
          expectedVersion,
          principal: context.call.actor,
          ...(isRetimed(object.spec, spec) ? { also: (tx) => context.schedules.setTimes(tx, object.id, spec) } : {}),
        });
        context.schedules.changed();
        return updated(await render(pathOf(path), [changed.object ?? object], context, as));
      },
    }),
    remove({
      summary: 'Deletes a schedule. Tasks that it made go on.',
      permission: { privilege: 'drop', on: 'object' },
      codes: ['CHANGE_IN_PROGRESS'],
      handle: async ({ path }, context) => {
        const [object] = (await context.catalog.find(pathOf(path))) ?? [];
        if (!object) return deleted(false);
        const was = await context.catalog.drop(object, {
          principal: context.call.actor,
          cascade: true,
          childCategories: [],
        });
        return deleted(was);
      },
    }),
  ],
};
