// What the server does now, and what was done last.
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { queryClient } from '../app/queries.ts';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import * as statements from '../history/statement_states.ts';
import { StateBadge } from '../tasks/task_progress.tsx';
import { namesOf, taskLabel } from '../tasks/task_text.ts';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, Loading } from '../ui/feedback.tsx';
import { formatAgo, formatBytes, formatCount, formatDuration } from '../ui/format.ts';
import * as warehouses from '../warehouses/warehouses.ts';
import styles from './start_room.module.css';

const refreshMs = 10_000;
const recentMax = 8;

const panels = {
  warehouses: ['warehouses', 'start'],
  statements: ['queries', 'start'],
  tasks: ['tasks', 'start'],
} as const;

/** Reads what the server did again, after the page made it do something. */
export async function refreshWork(): Promise<void> {
  await Promise.all(Object.values(panels).map((queryKey) => queryClient.invalidateQueries({ queryKey })));
}

interface PanelProps<T> {
  readonly title: string;
  readonly of: readonly unknown[];
  readonly load: (signal: AbortSignal) => Promise<readonly T[]>;
  readonly empty: string;
  readonly children: (items: readonly T[]) => ReactNode;
}

/** A list that refreshes itself. */
function Panel<T>({ title, of, load, empty, children }: PanelProps<T>) {
  const { data, error, refetch } = useQuery({
    queryKey: of,
    queryFn: ({ signal }) => load(signal),
    refetchInterval: refreshMs,
    // Who comes back from another page has done something there.
    refetchOnMount: 'always',
  });
  return (
    <section className={styles.panel} aria-label={title}>
      <h2>{title}</h2>
      {data === undefined && !error && <Loading />}
      {error && <ErrorPanel error={error} onRetry={refetch} />}
      {data?.length === 0 && <p className={styles.hint}>{empty}</p>}
      {data !== undefined && data.length > 0 && <ul className={styles.list}>{children(data)}</ul>}
    </section>
  );
}

export function Warehouses() {
  return (
    <Panel
      title="Warehouses"
      of={panels.warehouses}
      load={(signal) => client.warehouses.list({}, { signal }).all()}
      empty="There is no warehouse that you may see."
    >
      {(records) =>
        records.map(({ name, state, runningQueries, queuedQueries, memoryLimitBytes, health }) => (
          <li key={name}>
            <RoomLink room="warehouses" names={[name]} className={styles.name}>
              {name}
            </RoomLink>
            <Badge tone={warehouses.stateTones[state]}>{warehouses.stateLabels[state]}</Badge>
            <span className={styles.details}>
              {formatCount(runningQueries)} running, {formatCount(queuedQueries)} queued
              {memoryLimitBytes !== null && `, ${formatBytes(memoryLimitBytes)} of memory`}
              {health.status !== 'healthy' && ` · ${health.message}`}
            </span>
          </li>
        ))
      }
    </Panel>
  );
}

export function RecentStatements() {
  return (
    <Panel
      title="Recent statements"
      of={panels.statements}
      load={async (signal) => (await client.queries.list({ pageSize: recentMax }, { signal }).page()).items}
      empty="Nothing was run yet."
    >
      {(queries) =>
        queries.map(({ queryId, sql, catalog, database, state, createdAt, elapsedMs, error }) => (
          <li key={queryId}>
            <RoomLink
              room="sql"
              search={{ sql, catalog, database: database ?? undefined }}
              className={styles.sql}
              title="Open in the editor"
            >
              <code>{sql.replaceAll(/\s+/g, ' ').slice(0, 200)}</code>
            </RoomLink>
            <Badge tone={statements.stateTones[state]}>{statements.stateLabels[state]}</Badge>
            <span className={styles.details}>
              {formatAgo(createdAt)}
              {elapsedMs !== null && `, ${formatDuration(elapsedMs)}`}
              {error && ` · ${error.message}`}
            </span>
          </li>
        ))
      }
    </Panel>
  );
}

export function RecentTasks() {
  return (
    <Panel
      title="Recent tasks"
      of={panels.tasks}
      load={async (signal) => (await client.tasks.list({ pageSize: recentMax }, { signal }).page()).items}
      empty="There are no tasks yet. Loads, exports and long statements are tasks."
    >
      {(tasks) =>
        tasks.map((task) => {
          const { taskId, target, state, submittedAt, error } = task;
          return (
            <li key={taskId}>
              <RoomLink room="tasks" names={[taskId]} className={styles.name}>
                {taskLabel(task)}
              </RoomLink>
              <StateBadge state={state} />
              <span className={styles.details}>
                {namesOf(target).join('.')}, {formatAgo(submittedAt)}
                {error && ` · ${error.message}`}
              </span>
            </li>
          );
        })
      }
    </Panel>
  );
}
