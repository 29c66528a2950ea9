// The progress of a decommission: what is still on the backend, what it waits for, and what can be done about that.
import { RoomLink } from '../app/room_path.tsx';
import { formatAgo, formatCount } from '../ui/format.ts';
import type { BackendRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

type DecommissionRecord = NonNullable<BackendRecord['decommission']>;
type Blocker = DecommissionRecord['blockers'][number];

interface Reason {
  readonly label: string;
  readonly advice: string;
}

const reasons: Readonly<Record<Blocker['reason'], Reason>> = {
  lastReplica: {
    label: 'No other replica is complete',
    advice:
      'Enable or repair another replica of these tablets, move the catalog to another warehouse, or drop the tables.',
  },
  runningQueries: {
    label: 'Statements still run',
    advice: 'They are cancelled when the time to wait for them is over.',
  },
  writtenByCluster: {
    label: 'The cluster still writes to it',
    // The message says it.
    advice: '',
  },
  unreachable: {
    label: 'It does not respond in time',
    advice: 'If it is down, start it again, because it drops its tables itself.',
  },
};

export function Decommission({ decommission }: { readonly decommission: DecommissionRecord }) {
  const { taskUri, startedAt, remainingTablets, runningQueries, blockers, blockerCount } = decommission;
  const taskId = taskUri.split('/').at(-1) ?? '';
  const groups = [...Map.groupBy(blockers, ({ reason, message }) => `${reason} ${message}`).values()];
  return (
    <section className={styles.drain} aria-label="Decommission">
      <p>
        {`${formatCount(remainingTablets)} ${remainingTablets === 1 ? 'tablet' : 'tablets'} left, `}
        {`${formatCount(runningQueries)} ${runningQueries === 1 ? 'statement runs' : 'statements run'}; begun ${formatAgo(startedAt)}. `}
        <RoomLink room="tasks" names={[taskId]}>
          Show the task
        </RoomLink>
      </p>
      {groups.length > 0 && (
        <>
          <p className={styles.muted}>
            {blockerCount > blockers.length
              ? `It waits for ${formatCount(blockerCount)} things, of which these are the first ${blockers.length}:`
              : 'It waits for:'}
          </p>
          <ul className={styles.blockers}>
            {groups.map(
              ([first, ...others]) =>
                first && <Group key={`${first.reason} ${first.message}`} blockers={[first, ...others]} />,
            )}
          </ul>
        </>
      )}
    </section>
  );
}

interface GroupProps {
  readonly blockers: readonly [Blocker, ...Blocker[]];
}

/** Of the tables of a group; the others are shown on request. */
const tablesShownMax = 5;

/** Blockers with the same reason and message: the tables that they are about. */
function Group({ blockers }: GroupProps) {
  const [{ reason, message }] = blockers;
  const { label, advice } = reasons[reason];
  const tables = blockers.flatMap(({ table, tabletId }) => (table === null ? [] : [{ table, tabletId }]));
  const hidden = blockers.filter(({ table, tabletId }) => table === null && tabletId !== null).length;
  const more = tables.slice(tablesShownMax);
  return (
    <li>
      <strong>{label}</strong>
      <span className={styles.muted}>{`: ${message}. ${advice}`.trimEnd()}</span>
      {tables.length > 0 && <Tables tables={tables.slice(0, tablesShownMax)} />}
      {more.length > 0 && (
        <details>
          <summary>{`${formatCount(more.length)} more`}</summary>
          <Tables tables={more} />
        </details>
      )}
      {hidden > 0 && (
        <p className={styles.muted}>
          {hidden === 1 ? '1 table that you may not read' : `${formatCount(hidden)} tables that you may not read`}
        </p>
      )}
    </li>
  );
}

const Tables = ({ tables }: { readonly tables: readonly Pick<Blocker, 'table' | 'tabletId'>[] }) => (
  <ul className={styles.blockers}>
    {tables.map(({ table, tabletId }) => (
      <li key={`${table} ${tabletId}`}>
        <code>{table}</code>
        {tabletId !== null && ` · tablet ${tabletId}`}
      </li>
    ))}
  </ul>
);
