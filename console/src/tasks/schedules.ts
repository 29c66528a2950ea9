// Schedules as the forms edit them: what a draft holds as text, and the body that it becomes.
import type { Client } from '../../../src/client/index.ts';
import { namesOf } from './task_text.ts';

type Schedules = Client['schedules'];
export type ScheduleRecord = Awaited<ReturnType<ReturnType<Schedules>['get']>>;
type ScheduleChange = Parameters<ReturnType<Schedules>['update']>[0];
type Call = NonNullable<ScheduleRecord['request']>;

export interface ScheduleDraft {
  readonly name: string;
  readonly comment: string;
  readonly kind: 'query' | 'request';
  readonly sql: string;
  readonly catalog: string;
  readonly database: string;
  readonly warehouse: string;
  /** URI of the object that the action is called on. */
  readonly on: string;
  readonly action: Call['action'];
  /** JSON. */
  readonly body: string;
  readonly cron: string;
  readonly timeZone: string;
  readonly missedRuns: ScheduleRecord['missedRuns'];
  readonly priority: ScheduleRecord['priority'];
}

export const newDraft = (): ScheduleDraft => ({
  name: '',
  comment: '',
  kind: 'query',
  sql: '',
  catalog: 'default',
  database: '',
  warehouse: '',
  on: '',
  action: 'optimize',
  body: '{}',
  cron: '0 2 * * *',
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  missedRuns: 'once',
  priority: 'normal',
});

export function draftOf(schedule: ScheduleRecord): ScheduleDraft {
  const { name, comment, query, request, cron, timeZone, missedRuns, priority } = schedule;
  return {
    ...newDraft(),
    ...{ name, comment: comment ?? '', cron, timeZone, missedRuns, priority },
    ...(query && {
      kind: 'query',
      sql: query.sql,
      catalog: query.catalog ?? 'default',
      database: query.database ?? '',
      warehouse: query.warehouse ?? '',
    }),
    ...(request && {
      kind: 'request',
      on: request.on,
      action: request.action,
      body: JSON.stringify(request.body ?? {}, null, 2),
    }),
  };
}

const parsedBody = (text: string): Readonly<Record<string, unknown>> => JSON.parse(text === '' ? '{}' : text);

/** The field whose text is no JSON; undefined: all are valid. */
export function bodyFault({ kind, body }: ScheduleDraft): string | undefined {
  if (kind === 'query') return undefined;
  try {
    const parsed: unknown = parsedBody(body);
    const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed);
    return isObject ? undefined : 'Enter a JSON object';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const describedBy = ({ comment, cron, timeZone, missedRuns, priority }: ScheduleDraft) => ({
  comment: comment === '' ? null : comment,
  cron,
  timeZone,
  missedRuns,
  priority,
});

const requestOf = ({ on, action, body }: ScheduleDraft) => ({ on, action, body: parsedBody(body) });

/** A new schedule without its name. */
export function creationOf(draft: ScheduleDraft) {
  const { sql, catalog, database, warehouse } = draft;
  const place = { ...(database ? { database } : {}), ...(warehouse ? { warehouse } : {}) };
  return {
    ...describedBy(draft),
    ...(draft.kind === 'query' ? { query: { sql, catalog, ...place } } : { request: requestOf(draft) }),
  };
}

/** The fields that a draft defines; its action only if that differs from `before`, because redefining it confirms it. */
export function changeOf(draft: ScheduleDraft, before: ScheduleRecord): ScheduleChange {
  const was = draftOf(before);
  const isSame = (...fields: readonly (keyof ScheduleDraft)[]) => fields.every((field) => was[field] === draft[field]);
  if (draft.kind === 'query') {
    if (isSame('kind', 'sql', 'catalog', 'database', 'warehouse')) return describedBy(draft);
    const { sql, catalog, database, warehouse } = draft;
    return { ...describedBy(draft), query: { sql, catalog, database: database || null, warehouse: warehouse || null } };
  }
  if (isSame('kind', 'on', 'action', 'body')) return describedBy(draft);
  return { ...describedBy(draft), request: requestOf(draft) };
}

/** One line that says what a schedule does. */
export function actionText({ query, request }: ScheduleRecord): string {
  if (query) return query.sql.replace(/\s+/g, ' ').trim();
  return request ? `${request.action.replaceAll('_', ' ')} ${namesOf(request.on).join('.')}` : '';
}

export type ScheduleState = 'active' | 'paused' | 'unconfirmed';

export function scheduleStateOf({ disabled, needsConfirmation }: ScheduleRecord): ScheduleState {
  if (disabled) return 'paused';
  return needsConfirmation ? 'unconfirmed' : 'active';
}
