// Converts schedules between bodies, specs and records.

import { isDeepStrictEqual } from 'node:util';
import {
  changeFields,
  missedRunsDefault,
  type QueryField,
  ScheduledWork,
  workPatch,
} from '../../api/tasks/schedule_fields.ts';
import type { schedulesApi } from '../../api/tasks/schedules.ts';
import { CronFault } from '../../model/cron_times.ts';
import { runQueryTask } from '../../query/statements/query_submission.ts';
import { invalidParameter } from '../../standard/failure.ts';
import { segment, uriOf } from '../../standard/paths.ts';
import { mergePatch } from '../../standard/schema/merge_patch.ts';
import { type Static, Type } from '../../standard/type.ts';
import type { ScheduleSecrets, ScheduleSpec } from '../../tasks/schedule.ts';
import { defined, describe, shownDescription } from '../records/fields.ts';
import type { Context } from '../records/handler_context.ts';
import { commonFields, type RenderOf } from '../records/object_records.ts';
import { ownerName } from '../records/permissions.ts';
import { enabledStateOf } from '../records/states.ts';
import { checkNotify } from '../records/task_fields.ts';

const Change = Type.Object({ ...changeFields, ...workPatch });

type Work = Static<typeof ScheduledWork>;

export type ScheduleChange = {
  readonly [K in keyof Omit<Static<typeof Change>, 'owner'>]?: Static<typeof Change>[K] | undefined;
};

function queryOf({ numbers: _numbers, ...query }: NonNullable<ScheduleSpec['task']>['request']) {
  return query;
}

const timeText = (ms: number | null | undefined) => (typeof ms === 'number' ? new Date(ms).toISOString() : null);

export const asSchedule: RenderOf<typeof schedulesApi> = async ([object], uri, context) => {
  const { cron, timeZone, missedRuns, missedRunsMax, priority, notify, disabled, task, call, confirmedBy } =
    object.spec;
  const times = await context.schedules.timesOf(object.id);
  const lastTask = times?.last_task_id;
  return {
    name: object.name,
    ...shownDescription(object.spec),
    query: task ? queryOf(task.request) : null,
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

/** The spec of a schedule and its secrets; `secrets` undefined: unchanged. */
export interface Changed {
  readonly spec: ScheduleSpec;
  readonly secrets: ScheduleSecrets | undefined;
}

/** Throws INVALID_PARAMETER if its times are invalid or never occur, or if its call would be refused; HOST_NOT_ALLOWED. */
export function changed(
  before: ScheduleSpec,
  kept: ScheduleSecrets,
  change: ScheduleChange,
  context: Context,
): Changed {
  const { comment, properties, query: queryChange, request: requestChange, notify: notifyChange, ...rest } = change;
  if (queryChange && requestChange) throw invalidParameter('/request', 'exclusive', 'cannot be combined with `query`');
  const work = mergePatch<Work>(ScheduledWork, workOf(before, kept, requestChange ?? {}), {
    query: queryChange,
    request: requestChange,
    notify: notifyChange,
  });
  const query = queryChange && work.query;
  const request = requestChange && work.request;
  const notify = notifyChange && work.notify;
  if (notify) checkNotify(notify, context);
  const checkedCall = request && context.checkCall(request);
  const isConfirmed = query || request || notify !== undefined || change.disabled === false;
  const { task, call, ...others } = before;
  const spec: ScheduleSpec = {
    ...describe(others, defined({ comment, properties })),
    ...defined(rest),
    ...(query ? { task: taskOf(query) } : checkedCall ? { call: checkedCall.shown } : defined({ task, call })),
    ...(notify === undefined ? {} : { notify: notify ? shownOf(notify) : undefined }),
    ...(isConfirmed ? { confirmedBy: callerOf(context) } : {}),
  };
  requireTimes(spec, context);
  const body =
    checkedCall && !isDeepStrictEqual(checkedCall.body, checkedCall.shown.body) ? checkedCall.body : undefined;
  const isTouched = query !== undefined || request !== undefined || notify !== undefined;
  const secrets = {
    notify: notify === undefined ? kept.notify : (notify ?? undefined),
    body: query || request ? body : kept.body,
  };
  return { spec, secrets: isTouched ? secrets : undefined };
}

/** The action of a schedule and who is notified, with their secrets; another action gets none of the credentials of this one. */
function workOf(
  { task, call }: ScheduleSpec,
  { notify, body }: ScheduleSecrets,
  { on = call?.on, action = call?.action }: NonNullable<ScheduleChange['request']>,
): Work {
  const isSameCall = call?.on === on && call?.action === action;
  return defined({
    query: task && queryOf(task.request),
    request: call && { ...call, body: (isSameCall ? body : undefined) ?? call.body },
    notify: notify && { url: notify.url, ...defined({ secret: notify.secret }) },
  });
}

function requireTimes(spec: ScheduleSpec, context: Context): void {
  try {
    if (context.schedules.hasAnyOccurrence(spec)) return;
  } catch (error) {
    if (error instanceof CronFault) throw invalidParameter(`/${error.field}`, 'time', error.message);
    throw error;
  }
  throw invalidParameter('/cron', 'time', 'matches no time');
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

/** Whether its run times have to be computed again. */
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
