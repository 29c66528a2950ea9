// What the texts of tasks are in the interface: types, states, what a task is about, its amounts.
import type { TaskType } from '../../../src/api/tasks/task_types.ts';
import type { TaskRecord } from '../../../src/client/index.ts';
import type { Tone } from '../ui/feedback.tsx';
import { formatBytes, formatCount, formatDuration } from '../ui/format.ts';

export type TaskState = TaskRecord['state'];

export const typeLabels: Readonly<Record<TaskType, string>> = {
  run_query: 'Query',
  profile_query: 'Query profile',
  load_table: 'Load',
  load_database: 'Load into a new table',
  create_filled_table: 'Create table with rows',
  alter_table: 'Alter table',
  rename_database: 'Rename database',
  undrop_table: 'Undrop table',
  undrop_database: 'Undrop database',
  optimize_table: 'Optimize table',
  checksum_table: 'Checksum table',
  check_catalog: 'Check catalog',
  move_catalog: 'Move catalog',
  decommission_backend: 'Decommission backend',
  export: 'Export',
  backup: 'Backup',
  restore: 'Restore',
  server_backup: 'Server backup',
  scheduled_request: 'Scheduled action',
};

const requestOf = ({ request }: Pick<TaskRecord, 'request'>) => (request ?? {}) as Readonly<Record<string, unknown>>;

/** A type of a newer server is shown as it is. */
export function taskLabel(task: Pick<TaskRecord, 'type' | 'request'>): string {
  const label = (typeLabels as Readonly<Record<string, string>>)[task.type] ?? task.type;
  return requestOf(task).dryRun === true ? `${label} (dry run)` : label;
}

export const stateLabels: Readonly<Record<TaskState, string>> = {
  pending: 'Queued',
  running: 'Running',
  cancelling: 'Cancelling',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

export const stateTones: Readonly<Record<TaskState, Tone>> = {
  pending: 'neutral',
  running: 'accent',
  cancelling: 'warning',
  succeeded: 'success',
  failed: 'danger',
  cancelled: 'neutral',
};

export const isActive = ({ state }: Pick<TaskRecord, 'state'>): boolean =>
  state === 'pending' || state === 'running' || state === 'cancelling';

/** `default.ssb.lineorder`: the names in the URI of an object. */
export const namesOf = (uri: string): readonly string[] =>
  uri
    .split('/')
    .slice(3)
    .filter((_, i) => i % 2 === 1)
    .map(decodeURIComponent);

/** The SQL of a task that runs a statement. */
export function statementOf(task: Pick<TaskRecord, 'request'>) {
  const { sql, catalog, database } = requestOf(task);
  if (typeof sql !== 'string') return undefined;
  return { sql, catalog: textOf(catalog), database: textOf(database) };
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

/** One line that says what a task is about: its statement, or its object. */
export function subjectOf(task: TaskRecord): string {
  const statement = statementOf(task);
  if (statement) return statement.sql.replace(/\s+/g, ' ').trim();
  const object = namesOf(task.target).join('.');
  return task.type === 'move_catalog' ? `${object} to ${requestOf(task).warehouse}` : object;
}

/** How long it ran, or has run. */
export function tookText({ startedAt, endedAt }: TaskRecord, now: number): string | null {
  if (startedAt === null) return null;
  return formatDuration((endedAt === null ? now : Date.parse(endedAt)) - Date.parse(startedAt));
}

export interface Amount {
  readonly done: number;
  readonly total: number | undefined;
  readonly unit: string;
}

/** The amounts in a text such as `1200 of 5000 rows`. */
export function amountOf(text: string | null): Amount | undefined {
  const [, done, total, unit] = /^(\d+)(?: of (\d+))? (\w+)$/.exec(text ?? '') ?? [];
  if (done === undefined || unit === undefined) return undefined;
  return { done: Number(done), total: total === undefined ? undefined : Number(total), unit };
}

export const formatAmount = (value: number, unit: string): string =>
  unit === 'bytes' ? formatBytes(value) : `${formatCount(Math.round(value))} ${unit}`;

/** `2.1 MB of 8.4 MB`; other texts as they are. */
export function progressText(text: string | null): string | null {
  const amount = amountOf(text);
  if (!amount) return text;
  const { done, total, unit } = amount;
  return total === undefined ? formatAmount(done, unit) : `${formatAmount(done, unit)} of ${formatAmount(total, unit)}`;
}
