// The times of a schedule in words: the next ones, in its own time zone and as seen from now, and its cron expression.
import { formatAgo } from '../ui/format.ts';
import { useNow } from '../ui/use_now.ts';
import { cronLabel, formatRunTime, type NextTimes } from './schedule_times.ts';
import styles from './tasks_room.module.css';

interface RunTimesProps {
  readonly next: NextTimes;
  readonly timeZone: string;
}

export function RunTimes({ next, timeZone }: RunTimesProps) {
  const now = useNow(10_000);
  const { times, fault } = next;
  return (
    <section className={styles.section} aria-live="polite" aria-label="Next times">
      <h3>Next times</h3>
      {fault && (
        <p className={styles.fault}>
          {fault.field === 'cron' ? 'The cron expression' : 'The time zone'} {fault.message}.
        </p>
      )}
      {times?.length === 0 && <p className={styles.fault}>This expression matches no time.</p>}
      {times && times.length > 0 && (
        <ol className={styles.times}>
          {times.map((ms) => (
            <li key={ms}>
              <span>{formatRunTime(ms, timeZone)}</span>
              {/* Otherwise each passing minute is read out. */}
              <span className={styles.muted} aria-live="off">
                {formatAgo(new Date(ms).toISOString(), now)}
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** A cron expression in words, where there are some. */
export function CronText({ cron }: { readonly cron: string }) {
  const label = cronLabel(cron);
  return label === undefined ? <code>{cron}</code> : <span title={cron}>{label}</span>;
}
