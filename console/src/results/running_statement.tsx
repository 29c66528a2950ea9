// How far a running statement is: its place in the queue, its progress, the time that it has taken, and the time left where the server
// knows it.
import { X } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button } from '../ui/button.tsx';
import { Progress, Spinner } from '../ui/feedback.tsx';
import { formatCount, formatDuration } from '../ui/format.ts';
import styles from './result_panel.module.css';
import type { RunState, StatementRun } from './run/statement_run.ts';

type Running = Extract<RunState, { kind: 'running' }>;

interface RunningProps {
  readonly run: StatementRun;
  readonly state: Running;
}

const tickMs = 100;
/** Shorter waits are not worth a word. */
const waitShownMs = 1000;

/** In the place of the rows, while there are none. */
export function RunningStatement({ run, state }: RunningProps) {
  const { progress, isCancelling } = state;
  const phase = phaseOf(state);
  return (
    <div className={styles.running}>
      <Progress label={phase} value={progress?.fraction ?? null} />
      <p>
        <strong role="status">{phase}</strong> <RunningTimes run={run} state={state} />
      </p>
      {progress?.text && <p className={styles.muted}>{progress.text}</p>}
      <Button icon={<X aria-hidden />} disabled={isCancelling} onClick={() => run.cancel()}>
        Cancel
      </Button>
    </div>
  );
}

/** Above the first rows, while later ones are computed. */
export function ContinuingStatement({ run, state }: RunningProps) {
  const phase = state.isCancelling ? 'Cancelling' : 'Computing later rows';
  return (
    <div className={styles.continuing}>
      <Spinner label={phase} />
      <p>
        <span aria-hidden>{phase}</span>{' '}
        <span className={styles.muted}>
          <RunningTimes run={run} state={state} />
        </span>
      </p>
      <Button size="small" look="quiet" disabled={state.isCancelling} onClick={() => run.cancel()}>
        Cancel
      </Button>
    </div>
  );
}

function phaseOf({ isCancelling, progress }: Running): string {
  if (isCancelling) return 'Cancelling';
  if (!progress?.isWaiting) return 'Running';
  const { queuePosition } = progress;
  return queuePosition === null ? 'Waiting in the queue' : `Waiting in the queue, number ${formatCount(queuePosition)}`;
}

/** `12.4 s · 40 % · about 18.6 s left` */
function RunningTimes({ run, state: { progress } }: RunningProps) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), tickMs);
    return () => clearInterval(timer);
  }, []);
  const waitedMs = progress?.queuedMs ?? 0;
  const leftMs = progress?.expectedEndAt ? Date.parse(progress.expectedEndAt) - Date.now() : 0;
  const texts = [
    formatDuration(now - run.startedAt - waitedMs),
    progress?.fraction != null && `${Math.round(progress.fraction * 100)} %`,
    leftMs > 0 && `about ${formatDuration(leftMs)} left`,
    waitedMs >= waitShownMs && `waited ${formatDuration(waitedMs)}`,
  ];
  return <span className={styles.time}>{texts.filter(Boolean).join(' · ')}</span>;
}
