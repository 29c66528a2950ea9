// The list of schedules: what each does, when it runs next and when it ran last.
import { CalendarClock, CircleAlert, Plus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { usePages } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState } from '../ui/feedback.tsx';
import { formatAgo, formatTime } from '../ui/format.ts';
import { useIsNarrow } from '../ui/use_media.ts';
import { useNow } from '../ui/use_now.ts';
import { CronText } from './run_times.tsx';
import { ScheduleForm } from './schedule_form.tsx';
import { LastRun } from './schedule_runs.tsx';
import { ScheduleBadge, scheduleStateLabel } from './schedule_state.tsx';
import { actionText, type ScheduleRecord } from './schedules.ts';
import styles from './tasks_room.module.css';

const refetchEveryMs = 5000;

interface ScheduleListProps {
  /** Whether the details of a schedule leave less room. */
  readonly isCompact: boolean;
}

export function ScheduleList({ isCompact }: ScheduleListProps) {
  const openRoom = useOpenRoom();
  const now = useNow(5000);
  const [isCreating, setIsCreating] = useState(false);
  const isNarrow = useIsNarrow() || isCompact;
  const schedules = usePages(['schedules', 'list'], (signal) => client.schedules.list({ pageSize: 100 }, { signal }), {
    refetchEveryMs,
  });
  const columns = useMemo(() => columnsAt(now, isNarrow), [now, isNarrow]);
  const create = (
    <Button look="primary" icon={<Plus aria-hidden />} onClick={() => setIsCreating(true)}>
      New schedule
    </Button>
  );
  const isEmpty = schedules.items?.length === 0;
  return (
    <>
      {!isEmpty && (
        <div className={styles.bar}>
          <span className={styles.muted}>Each run is a task of the schedule’s owner.</span>
          {create}
        </div>
      )}
      {schedules.error && (
        <div className={styles.message}>
          <ErrorPanel error={schedules.error} title="The schedules could not be listed" onRetry={schedules.refetch} />
        </div>
      )}
      {(!schedules.error || schedules.items) && (
        <DataTable
          label="Schedules"
          columns={columns}
          records={schedules.items}
          keyOf={({ name }) => name}
          onOpen={({ name }) => openRoom('tasks', ['schedules', name])}
          onEnd={() => schedules.hasNextPage && !schedules.isFetching && schedules.fetchNextPage()}
          isFetchingMore={schedules.isFetchingNextPage}
          empty={
            <EmptyState icon={<CalendarClock aria-hidden />} title="There are no schedules" actions={create}>
              A schedule runs a statement, or an action such as a load, a backup or an optimization, at set times.
            </EmptyState>
          }
        />
      )}
      {isCreating && (
        <ScheduleForm
          onClose={() => setIsCreating(false)}
          onSaved={({ name }) => openRoom('tasks', ['schedules', name])}
        />
      )}
    </>
  );
}

function columnsAt(now: number, isNarrow: boolean): readonly Column<ScheduleRecord>[] {
  const nextRun: Column<ScheduleRecord> = {
    id: 'nextRunAt',
    header: 'Next run',
    value: ({ nextRunAt }) => nextRunAt,
    render: ({ nextRunAt }) =>
      nextRunAt === null ? (
        <span className={styles.muted}>–</span>
      ) : (
        <span title={formatTime(nextRunAt)}>{formatAgo(nextRunAt, now)}</span>
      ),
  };
  const name: Column<ScheduleRecord> = { id: 'name', header: 'Name', value: ({ name }) => name };
  const state: Column<ScheduleRecord> = {
    id: 'state',
    header: 'State',
    value: scheduleStateLabel,
    render: (schedule) => (
      <>
        <ScheduleBadge schedule={schedule} />{' '}
        {schedule.error !== null && (
          <span className={styles.fault} title={schedule.error}>
            <CircleAlert role="img" aria-label={`Problem: ${schedule.error}`} />
          </span>
        )}
      </>
    ),
  };
  const lastRun: Column<ScheduleRecord> = {
    id: 'lastRunAt',
    header: 'Last run',
    value: ({ lastRunAt }) => lastRunAt,
    render: (schedule) => <LastRun schedule={schedule} now={now} />,
  };
  if (isNarrow) return [name, state, lastRun];
  return [
    name,
    state,
    {
      id: 'action',
      header: 'Does',
      width: '40%',
      value: actionText,
      render: (schedule) => <code>{actionText(schedule)}</code>,
    },
    { id: 'cron', header: 'Times', value: ({ cron }) => cron, render: ({ cron }) => <CronText cron={cron} /> },
    nextRun,
    lastRun,
    { id: 'owner', header: 'Owner', value: ({ owner }) => owner },
  ];
}
