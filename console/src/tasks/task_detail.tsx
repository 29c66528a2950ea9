// One task: how far it is, why it failed and what to do, its request, and its result.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { SquareTerminal, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { errors, type TaskRecord } from '../../../src/client/index.ts';
import { failureOf } from '../app/queries.ts';
import { RoomLink, useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { CodeBlock } from '../ui/data/code_block.tsx';
import { type Fact, Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading } from '../ui/feedback.tsx';
import { formatDuration, formatTime } from '../ui/format.ts';
import { SidePanel } from '../ui/layout/side_panel.tsx';
import { Confirmation } from '../ui/overlays/confirmation.tsx';
import { useNow } from '../ui/use_now.ts';
import { useCancelTask } from './task_list.tsx';
import { TaskObject } from './task_object.tsx';
import { LargeProgress, StateBadge } from './task_progress.tsx';
import { observeProgress } from './task_rates.ts';
import { TaskResult } from './task_result.tsx';
import { isActive, namesOf, statementOf, taskLabel, tookText } from './task_text.ts';
import styles from './tasks_room.module.css';

const refetchEveryMs = 1000;

interface TaskDetailProps {
  readonly taskId: string;
  readonly onClose: () => void;
}

export function TaskDetail({ taskId, onClose }: TaskDetailProps) {
  const task = useQuery({
    queryKey: ['tasks', taskId],
    queryFn: async ({ signal }) => {
      const record = await client.tasks(taskId).get({}, { signal });
      observeProgress(record);
      return record;
    },
    refetchInterval: ({ state }) => state.data !== undefined && isActive(state.data) && refetchEveryMs,
  });
  const failure = failureOf(task);
  const failed = failure && <ErrorPanel error={failure} title="The task could not be read" onRetry={task.refetch} />;
  if (task.data)
    return (
      <Shown task={task.data} onClose={onClose}>
        {failed}
      </Shown>
    );
  return (
    <SidePanel title="Task" onClose={onClose}>
      {failed ?? <Loading />}
    </SidePanel>
  );
}

interface ShownProps {
  readonly task: TaskRecord;
  readonly onClose: () => void;
  /** What comes first. */
  readonly children: ReactNode;
}

function Shown({ task, onClose, children }: ShownProps) {
  const now = useNow(1000);
  const cancel = useCancelTask();
  const remove = useRemoveTask(onClose);
  const [isDeleting, setIsDeleting] = useState(false);
  const { taskId, state } = task;
  return (
    <SidePanel
      onClose={onClose}
      title={
        <>
          {taskLabel(task)} <StateBadge state={state} />
        </>
      }
      actions={
        isActive(task) ? (
          <Button
            look="danger"
            size="small"
            disabled={state === 'cancelling' || cancel.isPending}
            onClick={() => cancel.mutate(taskId)}
          >
            {state === 'cancelling' ? 'Cancelling…' : 'Cancel task'}
          </Button>
        ) : (
          <Button look="quiet" size="small" icon={<Trash2 aria-hidden />} onClick={() => setIsDeleting(true)}>
            Delete
          </Button>
        )
      }
    >
      <Confirmation
        title="Delete this task?"
        label="Delete task"
        failedTitle="The task was not deleted"
        isOpen={isDeleting}
        isPending={remove.isPending}
        error={remove.error}
        onClose={() => setIsDeleting(false)}
        onConfirm={() => remove.mutate(taskId)}
      >
        <p>Its result and its files are deleted with it. What it has changed stays.</p>
      </Confirmation>
      {children}
      {isActive(task) && <LargeProgress task={task} now={now} />}
      {task.error && <ErrorPanel error={errorOf(task.error)} title="The task failed" />}
      <Facts facts={factsOf(task, now)} />
      <Request task={task} />
      <TaskResult task={task} />
    </SidePanel>
  );
}

function useRemoveTask(onRemoved: () => void) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (taskId: string) => client.tasks(taskId).delete(),
    onSuccess: onRemoved,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['tasks'] }),
  });
}

/** The error of a record as calls reject with it: its code says what to do. */
export function errorOf({ code, message, result }: NonNullable<TaskRecord['error']>) {
  const details = result as Readonly<Record<string, unknown>> | undefined;
  return new errors[code as 'INTERNAL_ERROR']({ status: 200, message, ...(details ? { result: details } : {}) });
}

function factsOf(task: TaskRecord, now: number): Fact[] {
  const { submittedAt, startedAt, endedAt, attempt, priority, after, notify, taskId } = task;
  const timeOf = (iso: string | null) => (iso === null ? null : formatTime(iso));
  const waitedMs = (startedAt === null ? now : Date.parse(startedAt)) - Date.parse(submittedAt);
  return [
    { label: 'Object', value: namesOf(task.target).length > 0 ? <TaskObject target={task.target} /> : null },
    { label: 'Submitted by', value: task.submittedBy },
    { label: 'Submitted', value: timeOf(submittedAt) },
    { label: 'Started', value: timeOf(startedAt) },
    { label: 'Ended', value: timeOf(endedAt) },
    { label: 'Waited', value: startedAt === null && endedAt !== null ? null : formatDuration(waitedMs) },
    { label: 'Took', value: tookText(task, now) },
    { label: 'Priority', value: priority },
    { label: 'Attempt', value: attempt > 1 ? attempt : null },
    { label: 'Waits for', value: after.length > 0 ? <TaskLinks taskIds={after} /> : null },
    { label: 'Notifies', value: notify && `${notify.host}: ${notify.error ?? notify.state}` },
    { label: 'Task id', value: <code>{taskId}</code> },
  ];
}

const TaskLinks = ({ taskIds }: { readonly taskIds: readonly string[] }): ReactNode =>
  taskIds.map((taskId) => (
    <div key={taskId}>
      <RoomLink room="tasks" names={[taskId]}>
        {taskId}
      </RoomLink>
    </div>
  ));

function Request({ task }: { readonly task: TaskRecord }) {
  const openRoom = useOpenRoom();
  const statement = statementOf(task);
  if (statement)
    return (
      <section className={styles.section}>
        <h3>Statement</h3>
        <CodeBlock code={statement.sql} label="the statement" />
        <div className={styles.actions}>
          <Button size="small" icon={<SquareTerminal aria-hidden />} onClick={() => openRoom('sql', [], statement)}>
            Open in the editor
          </Button>
        </div>
      </section>
    );
  const fields = Object.keys((task.request ?? {}) as object);
  if (fields.length === 0) return null;
  return (
    <section className={styles.section}>
      <h3>Request</h3>
      <CodeBlock code={JSON.stringify(task.request, null, 2)} label="the request" />
    </section>
  );
}
