// The servers of the API below the list of warehouses, where there are several: which respond, and what is lost with one that does not.
import { useQuery } from '@tanstack/react-query';
import { client } from '../app/session.ts';
import { formatAgo } from '../ui/format.ts';
import styles from './warehouses_room.module.css';

const refetchEveryMs = 3000;

export function Servers() {
  const servers = useQuery({
    queryKey: ['servers'],
    queryFn: ({ signal }) => client.servers.list({ pageSize: 200 }, { signal }).all(),
    refetchInterval: ({ state }) => (state.error ? false : refetchEveryMs),
    // A user without the privilege does not see them.
    retry: false,
  });
  const { data = [] } = servers;
  if (data.length < 2) return null;
  return (
    <section className={styles.servers} aria-label="Servers">
      <h2>Servers</h2>
      <ul>
        {data.map(({ serverId, state, isCurrent, release, startedAt, warehouses }) => (
          <li key={serverId}>
            <span className={styles.name} title={serverId}>
              <span className={styles.dot} data-state={state === 'available' ? 'running' : 'failed'} aria-hidden />
              {serverId.slice(0, 8)}
              {isCurrent && ' (this one)'}
            </span>
            <span className={styles.muted}>
              {state === 'available' ? `${release} · started ${formatAgo(startedAt)}` : 'does not respond'}
              {warehouses.length > 0 && ` · has ${warehouses.join(', ')}`}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
