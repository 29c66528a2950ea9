// The list of tasks, read again while the page is open, with its filters in the address.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { ListChecks, Square } from 'lucide-react';
import { useMemo } from 'react';
import type { TaskRecord } from '../../../src/client/index.ts';
import { usePages } from '../app/queries.ts';
import { type Search, useOpenRoom, useRoomSearch } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { type Column, DataTable } from '../ui/data/data_table.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState } from '../ui/feedback.tsx';
import { TextInput } from '../ui/field.tsx';
import { formatAgo, formatTime } from '../ui/format.ts';
import { Select } from '../ui/overlays/select.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import { useIsNarrow } from '../ui/use_media.ts';
import { useNow } from '../ui/use_now.ts';
import { StateBadge, TaskProgress } from './task_progress.tsx';
import { observeProgress } from './task_rates.ts';
import { isActive, stateLabels, subjectOf, type TaskState, taskLabel, tookText, typeLabels } from './task_text.ts';
import styles from './tasks_room.module.css';

const refetchEveryMs = 2000;
const pageSize = 100;

type Filter = Parameters<typeof client.tasks.search>[0];

const keysOf = <K extends string>(labels: Readonly<Record<K, string>>) => Object.keys(labels) as K[];

const stateOf = (text: string | undefined): TaskState | undefined =>
  keysOf(stateLabels).find((state) => state === text);

const taskFilterOf = ({ state, type, user }: Search): NonNullable<Filter> => ({
  ...(stateOf(state) ? { state: stateOf(state) as TaskState } : {}),
  ...(type ? { type } : {}),
  ...(user ? { submittedBy: user } : {}),
});

/** Tasks page by page; what is read of them says how fast they are. */
const fetchTasks = (filter: NonNullable<Filter>, signal: AbortSignal) => {
  const list = client.tasks.search({ ...filter, pageSize }, { signal });
  return {
    page: async (pageToken?: string) => {
      const page = await list.page(pageToken);
      for (const task of page.items) observeProgress(task);
      return page;
    },
  };
};

export function useCancelTask() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (taskId: string) => client.tasks(taskId).cancel(),
    onError: (error) => showFailure('The task could not be cancelled', error),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['tasks'] }),
  });
}

interface TaskListProps {
  /** Whether the details of a task leave less room. */
  readonly isCompact: boolean;
}

export function TaskList({ isCompact }: TaskListProps) {
  const search = useRoomSearch();
  const openRoom = useOpenRoom();
  const now = useNow(1000);
  const cancel = useCancelTask();
  const { state, type, user } = search;
  const filter = taskFilterOf({ state, type, user });
  const tasks = usePages(['tasks', 'list', filter], (signal) => fetchTasks(filter, signal), { refetchEveryMs });
  const isNarrow = useIsNarrow();
  const columns = useMemo(
    () => columnsAt(now, { isNarrow, isCompact }, cancel.mutate),
    [now, isNarrow, isCompact, cancel.mutate],
  );
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <>
      <TaskFilters search={search} onChange={(next) => openRoom('tasks', [], next, { replace: true })} />
      {tasks.error && (
        <div className={styles.message}>
          <ErrorPanel error={tasks.error} title="The tasks could not be listed" onRetry={tasks.refetch} />
        </div>
      )}
      {(!tasks.error || tasks.items) && (
        <DataTable
          label="Tasks"
          columns={columns}
          records={tasks.items}
          keyOf={({ taskId }) => taskId}
          onOpen={({ taskId }) => openRoom('tasks', [taskId], search)}
          onEnd={() => tasks.hasNextPage && !tasks.isFetching && tasks.fetchNextPage()}
          isFetchingMore={tasks.isFetchingNextPage}
          empty={
            <EmptyState
              icon={<ListChecks aria-hidden />}
              title={isFiltered ? 'No task matches the filters' : 'There are no tasks'}
              actions={isFiltered && <Button onClick={() => openRoom('tasks')}>Clear the filters</Button>}
            >
              {isFiltered
                ? 'Only tasks that you may read are listed.'
                : 'Loads, exports, backups, and statements that take longer than their caller waits are listed here while they run and afterwards.'}
            </EmptyState>
          }
        />
      )}
    </>
  );
}

interface TaskFiltersProps {
  readonly search: Search;
  readonly onChange: (search: Search) => void;
}

const anyOf = (label: string, labels: Readonly<Record<string, string>>) => [
  { value: '', label },
  ...Object.entries(labels).map(([value, label]) => ({ value, label })),
];
const stateChoices = anyOf('Any state', stateLabels);
const typeChoices = anyOf('Any type', typeLabels);

function TaskFilters({ search, onChange }: TaskFiltersProps) {
  const change = (name: 'state' | 'type' | 'user', value: string) =>
    onChange({ ...search, [name]: value === '' ? undefined : value });
  return (
    <search className={styles.filters}>
      <Select
        label="State"
        isQuiet
        value={search.state ?? ''}
        choices={stateChoices}
        onChange={(value) => change('state', value)}
      />
      <Select
        label="Type"
        isQuiet
        value={search.type ?? ''}
        choices={typeChoices}
        onChange={(value) => change('type', value)}
      />
      <div className={styles.userFilter}>
        <TextInput
          aria-label="Submitted by"
          placeholder="Any user"
          value={search.user ?? ''}
          onChange={(value) => change('user', value)}
        />
      </div>
    </search>
  );
}

interface Room {
  readonly isNarrow: boolean;
  readonly isCompact: boolean;
}

function columnsAt(
  now: number,
  { isNarrow, isCompact }: Room,
  onCancel: (taskId: string) => void,
): readonly Column<TaskRecord>[] {
  const state: Column<TaskRecord> = {
    id: 'state',
    header: 'State',
    width: '104px',
    value: ({ state }) => stateLabels[state],
    render: (task) => <StateBadge state={task.state} />,
  };
  const type: Column<TaskRecord> = { id: 'type', header: 'Task', value: (task) => taskLabel(task) };
  const subject: Column<TaskRecord> = {
    id: 'subject',
    header: 'About',
    ...(isNarrow || isCompact ? {} : { width: '40%' }),
    value: subjectOf,
    render: (task) => (
      <code title={subjectOf(task)} className={styles.subject} data-compact={isNarrow || isCompact}>
        {subjectOf(task)}
      </code>
    ),
  };
  const progress: Column<TaskRecord> = {
    id: 'progress',
    header: 'Progress',
    value: ({ progress }) => progress,
    render: (task) => <TaskProgress task={task} now={now} />,
  };
  const submitted: Column<TaskRecord> = {
    id: 'submitted',
    header: 'Submitted',
    value: ({ submittedAt }) => submittedAt,
    render: ({ submittedAt }) => <span title={formatTime(submittedAt)}>{formatAgo(submittedAt, now)}</span>,
  };
  const action: Column<TaskRecord> = {
    id: 'action',
    header: 'Actions',
    isAction: true,
    width: '56px',
    value: () => '',
    render: (task) =>
      isActive(task) && (
        <IconButton
          size="small"
          label={`Cancel ${taskLabel(task)}`}
          disabled={task.state === 'cancelling'}
          onClick={(event) => {
            event.stopPropagation();
            onCancel(task.taskId);
          }}
        >
          <Square aria-hidden />
        </IconButton>
      ),
  };
  if (isNarrow) return [state, subject, submitted, action];
  if (isCompact) return [state, type, subject, submitted, action];
  return [
    state,
    type,
    subject,
    progress,
    { id: 'by', header: 'By', value: ({ submittedBy }) => submittedBy },
    submitted,
    { id: 'took', header: 'Took', isNumber: true, value: (task) => tookText(task, now) },
    action,
  ];
}
