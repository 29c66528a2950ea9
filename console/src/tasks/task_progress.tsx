// The state of a task, and how far one is that has not ended: its bar, its rate and the time left.
import type { TaskRecord } from '../../../src/client/index.ts';
import { Badge, Progress } from '../ui/feedback.tsx';
import { formatDuration } from '../ui/format.ts';
import { rateText } from './task_rates.ts';
import { isActive, progressText, stateLabels, stateTones, taskLabel } from './task_text.ts';
import styles from './tasks_room.module.css';

export const StateBadge = ({ state }: Pick<TaskRecord, 'state'>) => (
  <Badge tone={stateTones[state]}>{stateLabels[state]}</Badge>
);

export function leftText({ expectedEndAt }: TaskRecord, now: number): string | undefined {
  if (expectedEndAt === null) return undefined;
  const leftMs = Date.parse(expectedEndAt) - now;
  return leftMs > 0 ? `about ${formatDuration(leftMs)} left` : 'about to end';
}

interface TaskProgressProps {
  readonly task: TaskRecord;
  readonly now: number;
}

/** One line of the list. */
export function TaskProgress({ task, now }: TaskProgressProps) {
  if (!isActive(task)) return <span className={styles.muted}>–</span>;
  if (task.state === 'pending')
    return <span className={styles.muted}>{task.after.length > 0 ? 'Waits for others' : 'In the queue'}</span>;
  return (
    <div className={styles.progress}>
      <Progress label={`Progress of ${taskLabel(task)}`} value={task.progress} />
      <span className={styles.muted}>{shortText(task, now)}</span>
    </div>
  );
}

function shortText(task: TaskRecord, now: number): string {
  const percent = task.progress === null ? undefined : `${Math.round(task.progress * 100)} %`;
  const done = task.progress === null ? progressText(task.progressText) : undefined;
  return [percent ?? done ?? 'Running', rateText(task.taskId), leftText(task, now)].filter(Boolean).join(' · ');
}

/** The block at the top of the details. */
export function LargeProgress({ task, now }: TaskProgressProps) {
  const { state, progress, taskId } = task;
  if (state === 'pending')
    return (
      <p className={styles.muted}>
        {task.after.length > 0
          ? 'It begins when the tasks that it waits for have succeeded.'
          : 'It waits in the queue for a free place.'}
      </p>
    );
  const texts = [
    progress === null ? undefined : `${Math.round(progress * 100)} %`,
    progressText(task.progressText),
    rateText(taskId),
    leftText(task, now),
  ];
  return (
    <div className={styles.largeProgress}>
      <Progress label="Progress" value={progress} />
      <p>{texts.filter(Boolean).join(' · ') || 'Running; how far it is, is not known'}</p>
    </div>
  );
}
