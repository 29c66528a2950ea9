// The servers of the API below the list of warehouses, where there are several: which respond, what is lost with one that does not, and the
// removal of one that is lost for good.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { errors } from '../../../src/client/index.ts';
import { failureOf } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { formatAgo } from '../ui/format.ts';
import { Dialog } from '../ui/overlays/dialog.tsx';
import { useNow } from '../ui/use_now.ts';
import styles from './warehouses_room.module.css';

const refetchEveryMs = 3000;

/** The last group of an id: the first ones are the time, which is the same of servers that were set up together. */
const shortId = (serverId: string): string => serverId.split('-').at(-1) ?? serverId;

export function Servers() {
  const servers = useQuery({
    queryKey: ['servers'],
    queryFn: ({ signal }) => client.servers.list({ pageSize: 200 }, { signal }).all(),
    // A user without the privilege does not see them.
    refetchInterval: ({ state }) => !(state.error instanceof errors.FORBIDDEN) && refetchEveryMs,
  });
  const now = useNow(10_000);
  const [removed, setRemoved] = useState<LostServer>();
  const failure = failureOf(servers);
  const { data = [] } = servers;
  if (failure instanceof errors.FORBIDDEN || (data.length < 2 && !failure)) return null;
  return (
    <section className={styles.servers} aria-label="Servers">
      <h2>Servers</h2>
      {failure && <ErrorPanel error={failure} title="The servers could not be listed" onRetry={servers.refetch} />}
      <ul>
        {data.map(({ serverId, state, isCurrent, release, startedAt, warehouses }) => (
          <li key={serverId}>
            <span className={styles.name} title={serverId}>
              <span className={styles.dot} data-state={state === 'available' ? 'running' : 'failed'} aria-hidden />
              {shortId(serverId)}
              {isCurrent && ' (this one)'}
            </span>
            <span className={styles.muted}>
              {state === 'available' ? `version ${release}, started ${formatAgo(startedAt, now)}` : 'does not respond'}
              {warehouses.length > 0 && ` · has ${warehouses.join(', ')}`}
            </span>
            {state === 'unavailable' && (
              <Button size="small" look="danger" onClick={() => setRemoved({ serverId, warehouses })}>
                Remove
              </Button>
            )}
          </li>
        ))}
      </ul>
      {removed && <RemovalDialog server={removed} onClose={() => setRemoved(undefined)} />}
    </section>
  );
}

interface LostServer {
  readonly serverId: string;
  readonly warehouses: readonly string[];
}

interface RemovalDialogProps {
  readonly server: LostServer;
  readonly onClose: () => void;
}

function RemovalDialog({ server: { serverId, warehouses }, onClose }: RemovalDialogProps) {
  const queryClient = useQueryClient();
  const hasData = warehouses.length > 0;
  const removal = useMutation({
    mutationFn: async () => client.servers(serverId).delete(hasData ? { cascade: true } : {}),
    onSuccess: async () => {
      onClose();
      await queryClient.invalidateQueries();
    },
  });
  const names = warehouses.join(', ');
  const lost =
    warehouses.length > 1
      ? `, and the warehouses ${names} with all their catalogs are deleted`
      : `, and the warehouse ${names} with all its catalogs is deleted`;
  return (
    <Dialog
      title={`Remove server ${shortId(serverId)}?`}
      description={`Only for a server that will never start again: its unfinished tasks fail, its results and files are lost${hasData ? lost : ''}.`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="danger" disabled={removal.isPending} onClick={() => removal.mutate()}>
            {hasData ? 'Remove server and warehouses' : 'Remove server'}
          </Button>
        </>
      }
    >
      {removal.error && <ErrorPanel error={removal.error} title="The server was not removed" />}
    </Dialog>
  );
}
