// The progress of a decommission: what is still on the backend, and what it waits for.
import { RoomLink } from '../app/room_path.tsx';
import { formatAgo, formatCount } from '../ui/format.ts';
import type { BackendRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

type DecommissionRecord = NonNullable<BackendRecord['decommission']>;
type Blocker = DecommissionRecord['blockers'][number];

const reasons: Readonly<Record<Blocker['reason'], string>> = {
  lastReplica: 'No other replica is complete',
  runningQueries: 'Statements still run',
  writtenByCluster: 'The cluster still writes to it',
  unreachable: 'It does not respond',
};

export function Decommission({ decommission }: { readonly decommission: DecommissionRecord }) {
  const { taskUri, startedAt, remainingTablets, runningQueries, blockers, blockerCount } = decommission;
  const taskId = taskUri.split('/').at(-1) ?? '';
  return (
    <section className={styles.drain} aria-label="Decommission">
      <p>
        {`${formatCount(remainingTablets)} ${remainingTablets === 1 ? 'tablet' : 'tablets'} left, `}
        {`${formatCount(runningQueries)} ${runningQueries === 1 ? 'statement runs' : 'statements run'}; begun ${formatAgo(startedAt)}. `}
        <RoomLink room="tasks" names={[taskId]}>
          Task
        </RoomLink>
      </p>
      {blockers.length > 0 && (
        <>
          <p className={styles.muted}>
            {blockerCount > blockers.length
              ? `It waits for ${formatCount(blockerCount)} things, of which these are the first ${blockers.length}:`
              : 'It waits for:'}
          </p>
          <ul className={styles.blockers}>
            {blockers.map((blocker) => (
              <li key={`${blocker.reason} ${blocker.table} ${blocker.tabletId}`}>
                <strong>{reasons[blocker.reason]}</strong>
                {blocker.table !== null && ` · ${blocker.table}`}
                {blocker.tabletId !== null && ` · tablet ${blocker.tabletId}`}
                <span className={styles.muted}> {blocker.message}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
