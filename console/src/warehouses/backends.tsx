// The backends of a warehouse: whether each is alive, what it uses, and why it is not healthy.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { Badge, Progress } from '../ui/feedback.tsx';
import { formatAgo, formatBytes, formatCount, formatTime } from '../ui/format.ts';
import { showFailure } from '../ui/overlays/toasts.tsx';
import type { BackendRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

interface BackendsProps {
  readonly warehouse: string;
  readonly isSuspended: boolean;
  readonly backends: readonly BackendRecord[];
}

export function Backends({ warehouse, isSuspended, backends }: BackendsProps) {
  return (
    <section className={styles.section}>
      <h3>Backends</h3>
      {backends.map((backend) => (
        <Backend key={backend.backendId} warehouse={warehouse} isSuspended={isSuspended} backend={backend} />
      ))}
    </section>
  );
}

function Backend({
  warehouse,
  isSuspended,
  backend,
}: Omit<BackendsProps, 'backends'> & { readonly backend: BackendRecord }) {
  const queryClient = useQueryClient();
  const { backendId, state, errorMessage, lastStartAt, lastHeartbeatAt } = backend;
  const isEnabled = state === 'enabled';
  const switched = useMutation({
    mutationFn: () => {
      const one = client.warehouses(warehouse).backends(backendId);
      return isEnabled ? one.disable() : one.enable();
    },
    onError: (error) => showFailure('The backend could not be changed', error),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['warehouses'] }),
  });
  return (
    <article className={styles.card}>
      <header className={styles.heading}>
        <h4>{backendId}</h4>
        {!isEnabled ? (
          <Badge tone="warning">Disabled</Badge>
        ) : backend.alive ? (
          <Badge tone="success">Alive</Badge>
        ) : (
          <Badge tone={isSuspended ? 'neutral' : 'danger'}>{isSuspended ? 'Stopped' : 'Not alive'}</Badge>
        )}
        <span className={styles.space} />
        <Button
          size="small"
          look={isEnabled ? 'danger' : 'secondary'}
          disabled={switched.isPending}
          onClick={() => switched.mutate()}
        >
          {isEnabled ? 'Disable' : 'Enable'}
        </Button>
      </header>
      {errorMessage !== null && <p className={styles.fault}>{errorMessage}</p>}
      <Facts
        facts={[
          {
            label: 'Memory',
            value: <Part label="Memory" used={backend.memoryUsedBytes} of={backend.memoryLimitBytes} />,
          },
          {
            label: 'Disk in use',
            value: (
              <Part
                label="Disk in use"
                used={backend.diskTotalBytes - backend.diskAvailableBytes}
                of={backend.diskTotalBytes}
              />
            ),
          },
          { label: 'Spilled', value: formatBytes(backend.spilledBytes) },
          { label: 'Tables on disk', value: formatBytes(backend.dataUsedBytes) },
          { label: 'Tablets', value: formatCount(backend.tabletCount) },
          { label: 'Statements', value: formatCount(backend.runningQueries) },
          { label: 'Processor cores', value: formatCount(backend.cpuCores) },
          { label: 'Engine', value: [backend.engine, backend.engineVersion].filter(Boolean).join(' ') },
          { label: 'Location', value: backend.location === backend.engine ? null : backend.location },
          {
            label: 'Started',
            value: lastStartAt && <span title={formatTime(lastStartAt)}>{formatAgo(lastStartAt)}</span>,
          },
          { label: 'Last answer', value: lastHeartbeatAt && formatAgo(lastHeartbeatAt) },
          { label: 'Comment', value: backend.comment },
        ]}
      />
    </article>
  );
}

interface PartProps {
  readonly label: string;
  readonly used: number;
  readonly of: number;
}

/** A size as a part of its limit. */
function Part({ label, used, of }: PartProps) {
  return (
    <span className={styles.part}>
      {formatBytes(used)} of {formatBytes(of)}
      <Progress label={`${label}, part of the limit`} value={of > 0 ? Math.min(1, used / of) : 0} />
    </span>
  );
}
