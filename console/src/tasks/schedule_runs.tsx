// The runs of a schedule: the last ones with their states, and why the last one failed.
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { errors, type TaskRecord } from '../../../src/client/index.ts';
import { failureOf } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { formatAgo, formatTime } from '../ui/format.ts';
import { useNow } from '../ui/use_now.ts';
import type { ScheduleRecord } from './schedules.ts';
import { errorOf } from './task_detail.tsx';
import { StateBadge } from './task_progress.tsx';
import { isActive, namesOf, stateLabels, tookText } from './task_text.ts';
import styles from './tasks_room.module.css';

const refetchEveryMs = 3000;
const runsMax = 20;

interface LastRunProps {
  readonly schedule: ScheduleRecord;
  readonly now: number;
}

/** How the last run ended, and its time; only the time if its task was deleted or may not be read. */
export function LastRun({ schedule: { lastRunAt, lastTask }, now }: LastRunProps) {
  const [taskId = ''] = lastTask === null ? [] : namesOf(lastTask);
  const task = useQuery({
    queryKey: ['tasks', taskId, 'last run'],
    enabled: taskId !== '',
    queryFn: async ({ signal }) => (await taskOrNone(taskId, signal)) ?? null,
    refetchInterval: ({ state }) => !!state.data && isActive(state.data) && refetchEveryMs,
  });
  if (lastRunAt === null) return <span className={styles.muted}>–</span>;
  return (
    <>
      {task.data && <StateBadge state={task.data.state} />}{' '}
      <span title={formatTime(lastRunAt)}>{formatAgo(lastRunAt, now)}</span>
    </>
  );
}

/** The tasks of its runs: those of statements by their target; those of actions have other targets, and the audit trail names them. */
async function runsOf(schedule: ScheduleRecord, signal: AbortSignal): Promise<readonly TaskRecord[]> {
  const items = await client.tasks.search({ target: schedule.uri, pageSize: runsMax }, { signal }).first(runsMax);
  if (schedule.query) return items;
  const known = new Set(items.map(({ taskId }) => taskId));
  const others = await Promise.all(
    (await actionTaskIds(schedule, signal))
      .filter((taskId) => !known.has(taskId))
      .map((taskId) => taskOrNone(taskId, signal)),
  );
  const found = [...items, ...others.filter((task) => task !== undefined)];
  return found.sort((a, b) => (a.submittedAt < b.submittedAt ? 1 : -1));
}

async function actionTaskIds({ uri, lastTask }: ScheduleRecord, signal: AbortSignal): Promise<readonly string[]> {
  const last = lastTask === null ? [] : namesOf(lastTask);
  try {
    const search = { action: 'schedules.run', object: uri, pageSize: runsMax };
    const items = await client.auditEvents.search(search, { signal }).first(runsMax);
    const ids = items.flatMap(({ details }) => (details as { readonly taskId?: string } | null)?.taskId ?? []);
    return [...new Set([...last, ...ids])];
  } catch (error) {
    if (error instanceof errors.FORBIDDEN) return last;
    throw error;
  }
}

async function taskOrNone(taskId: string, signal: AbortSignal): Promise<TaskRecord | undefined> {
  try {
    return await client.tasks(taskId).get({}, { signal });
  } catch (error) {
    if (error instanceof errors.OBJECT_NOT_FOUND || error instanceof errors.FORBIDDEN) return undefined;
    throw error;
  }
}

export function Runs({ schedule }: { readonly schedule: ScheduleRecord }) {
  const openRoom = useOpenRoom();
  const now = useNow(1000);
  const runs = useQuery({
    queryKey: ['schedules', schedule.name, 'runs', schedule.lastTask],
    queryFn: ({ signal }) => runsOf(schedule, signal),
    // The runs of actions are read one by one.
    refetchInterval: ({ state }) =>
      schedule.query || state.data?.some(isActive) ? refetchEveryMs : 5 * refetchEveryMs,
    placeholderData: (previous) => previous,
  });
  const failure = failureOf(runs);
  const columns = useMemo(() => runColumnsAt(now), [now]);
  const lastError = runs.data?.[0]?.error;
  return (
    <section className={styles.section}>
      <h3>Last runs</h3>
      {lastError && schedule.error === null && <ErrorPanel error={errorOf(lastError)} title="The last run failed" />}
      {failure ? (
        <ErrorPanel error={failure} title="The runs could not be listed" onRetry={runs.refetch} />
      ) : runs.data?.length === 0 ? (
        <p className={styles.muted}>
          {schedule.lastRunAt === null
            ? 'It has not run yet.'
            : 'The tasks of its runs were deleted, or you may not read them.'}
        </p>
      ) : (
        <div className={styles.rows}>
          <DataTable
            label="Last runs"
            columns={columns}
            records={runs.data}
            keyOf={({ taskId }) => taskId}
            onOpen={({ taskId }) => openRoom('tasks', [taskId])}
          />
        </div>
      )}
    </section>
  );
}

const runColumnsAt = (now: number): readonly Column<TaskRecord>[] => [
  {
    id: 'state',
    header: 'State',
    value: ({ state }) => stateLabels[state],
    render: ({ state, error }) => (
      <span title={error?.message}>
        <StateBadge state={state} />
      </span>
    ),
  },
  {
    id: 'submitted',
    header: 'Submitted',
    value: ({ submittedAt }) => submittedAt,
    render: ({ submittedAt }) => <span title={formatTime(submittedAt)}>{formatAgo(submittedAt, now)}</span>,
  },
  { id: 'took', header: 'Took', isNumber: true, value: (task) => tookText(task, now) },
];
