// One schedule: its next times, its last runs, and what can be done with it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pause, Pencil, Play, Trash2, Zap } from 'lucide-react';
import { useMemo, useState } from 'react';
import { Task } from '../../../src/client/index.ts';
import { failureOf } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { SidePanel } from '../ui/layout/side_panel.tsx';
import { Confirmation } from '../ui/overlays/confirmation.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import { CronText, RunTimes } from './run_times.tsx';
import { ScheduleForm } from './schedule_form.tsx';
import { Runs } from './schedule_runs.tsx';
import { ScheduleBadge } from './schedule_state.tsx';
import { nextTimes } from './schedule_times.ts';
import type { ScheduleRecord } from './schedules.ts';
import { TaskObject } from './task_object.tsx';
import styles from './tasks_room.module.css';

const refetchEveryMs = 3000;

interface ScheduleDetailProps {
  readonly name: string;
  readonly onClose: () => void;
}

export function ScheduleDetail({ name, onClose }: ScheduleDetailProps) {
  const schedule = useQuery({
    queryKey: ['schedules', name],
    queryFn: ({ signal }) => client.schedules(name).get({ signal }),
    refetchInterval: refetchEveryMs,
  });
  const { data } = schedule;
  const failure = failureOf(schedule);
  return (
    <SidePanel
      title={
        <>
          {name} {data && <ScheduleBadge schedule={data} />}
        </>
      }
      actions={data && <Actions schedule={data} onDeleted={onClose} />}
      onClose={onClose}
    >
      {failure ? (
        <ErrorPanel error={failure} title="The schedule could not be read" onRetry={schedule.refetch} />
      ) : data ? (
        <Shown schedule={data} />
      ) : (
        <Loading />
      )}
    </SidePanel>
  );
}

function Shown({ schedule }: { readonly schedule: ScheduleRecord }) {
  const { cron, timeZone, query, request, error, comment, owner, priority, missedRuns, notify, disabled, nextRunAt } =
    schedule;
  // From the server's next time on, so that a time that has passed leaves the list.
  const next = useMemo(
    () => nextTimes(cron, timeZone, 5, nextRunAt === null ? Date.now() : Date.parse(nextRunAt) - 1),
    [cron, timeZone, nextRunAt],
  );
  return (
    <>
      {error !== null && <ErrorPanel error={new Error(error)} title="Its last run did not start" />}
      {schedule.needsConfirmation && (
        <ErrorPanel
          error={new Error(`Someone other than its owner, ${owner}, defined what it does.`)}
          title="It does not run until its owner confirms it"
        >
          <p>Its owner confirms it by resuming it or by saving a change of what it does.</p>
        </ErrorPanel>
      )}
      {disabled ? (
        <p className={styles.muted}>It is paused: its times pass without a run.</p>
      ) : (
        <RunTimes next={next} timeZone={timeZone} />
      )}
      <section className={styles.section}>
        <h3>{query ? 'Statement' : 'Action'}</h3>
        {query && <CodeBlock code={query.sql} label="the statement" />}
        {request && (
          <CodeBlock
            code={`${request.action} on ${request.on}\n${JSON.stringify(request.body ?? {}, null, 2)}`}
            label="the action"
          />
        )}
      </section>
      <Facts
        facts={[
          { label: 'Times', value: <CronText cron={cron} /> },
          { label: 'Time zone', value: timeZone },
          { label: 'Namespace', value: query && [query.catalog, query.database].filter(Boolean).join('.') },
          { label: 'Object', value: request && <TaskObject target={request.on} /> },
          { label: 'Warehouse', value: query?.warehouse },
          { label: 'Missed times', value: missedTexts[missedRuns] },
          { label: 'Priority', value: priority },
          { label: 'Owner', value: owner },
          { label: 'Notifies', value: notify?.host },
          { label: 'Comment', value: comment },
        ]}
      />
      <Runs schedule={schedule} />
    </>
  );
}

function asTask(answer: unknown): Task {
  if (answer instanceof Task) return answer;
  throw new Error('the server did not start a task');
}

const missedTexts: Readonly<Record<ScheduleRecord['missedRuns'], string>> = {
  skip: 'skipped',
  once: 'one run for all',
  all: 'a run for each',
};

function Actions({ schedule, onDeleted }: { readonly schedule: ScheduleRecord; readonly onDeleted: () => void }) {
  const [open, setOpen] = useState<'edit' | 'delete'>();
  const queryClient = useQueryClient();
  const { name, disabled, needsConfirmation } = schedule;
  const onSettled = () => queryClient.invalidateQueries({ queryKey: ['schedules'] });
  const pause = useMutation({
    mutationFn: (isPaused: boolean) => client.schedules(name).update({ disabled: isPaused }),
    onError: (error) => showFailure('The schedule could not be changed', error),
    onSettled,
  });
  const remove = useMutation({
    mutationFn: () => client.schedules(name).delete(),
    onSuccess: onDeleted,
    onSettled,
  });
  const openRoom = useOpenRoom();
  const run = useMutation({
    mutationFn: async () => asTask(await client.schedules(name).run()),
    onSuccess: ({ taskId }) => void openRoom('tasks', [taskId]),
    onError: (error) => showFailure('The schedule was not run', error),
    onSettled,
  });
  const isStopped = disabled || needsConfirmation;
  return (
    <>
      <Button
        size="small"
        icon={<Zap aria-hidden />}
        disabled={run.isPending || needsConfirmation}
        onClick={() => run.mutate()}
      >
        Run now
      </Button>
      <Button
        size="small"
        icon={isStopped ? <Play aria-hidden /> : <Pause aria-hidden />}
        disabled={pause.isPending}
        onClick={() => pause.mutate(!isStopped)}
      >
        {isStopped ? 'Resume' : 'Pause'}
      </Button>
      <IconButton label="Change" onClick={() => setOpen('edit')}>
        <Pencil aria-hidden />
      </IconButton>
      <IconButton label="Delete" onClick={() => setOpen('delete')}>
        <Trash2 aria-hidden />
      </IconButton>
      {open === 'edit' && <ScheduleForm schedule={schedule} onClose={() => setOpen(undefined)} />}
      <Confirmation
        title={`Delete ${name}?`}
        label="Delete schedule"
        failedTitle="The schedule was not deleted"
        isOpen={open === 'delete'}
        isPending={remove.isPending}
        error={remove.error}
        onClose={() => setOpen(undefined)}
        onConfirm={() => remove.mutate()}
      >
        <p>It no longer runs. Tasks that it has started continue.</p>
      </Confirmation>
    </>
  );
}
