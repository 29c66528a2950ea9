// The backends of a warehouse: whether each is available, what it uses, and why it is not healthy. Those of a cluster are grouped by shard.
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../ui/button.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { Badge, EmptyState, Progress, type Tone } from '../ui/feedback.tsx';
import { formatAgo, formatBytes, formatCount, formatTime } from '../ui/format.ts';
import { BackendActions, BackendForm } from './backend_actions.tsx';
import { Decommission } from './decommission.tsx';
import type { BackendRecord, WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

interface BackendsProps {
  readonly warehouse: WarehouseRecord;
  readonly backends: readonly BackendRecord[];
}

export function Backends({ warehouse, backends }: BackendsProps) {
  const [isAdding, setIsAdding] = useState(false);
  const isCluster = warehouse.cluster !== null;
  const shards = Map.groupBy(backends, ({ shard }) => shard);
  const ordered = [...shards].sort(([a], [b]) => (a ?? Number.MAX_VALUE) - (b ?? Number.MAX_VALUE));
  return (
    <section className={styles.section}>
      <header className={styles.heading}>
        <h3>Backends</h3>
        <span className={styles.space} />
        {isCluster && (
          <Button size="small" icon={<Plus aria-hidden />} onClick={() => setIsAdding(true)}>
            New backend
          </Button>
        )}
      </header>
      {isCluster && backends.length === 0 && (
        <EmptyState title="No server of the cluster is registered">
          Register its servers as backends: with the first one, catalogs can be created here.
        </EmptyState>
      )}
      {ordered.map(([shard, members]) => (
        <div key={shard} className={styles.section}>
          {shard !== null && <ShardHeading shard={shard} members={members} />}
          {members.map((backend) => (
            <Backend key={backend.backendId} warehouse={warehouse} backend={backend} members={members} />
          ))}
        </div>
      ))}
      {isAdding && <BackendForm warehouse={warehouse.name} onClose={() => setIsAdding(false)} />}
    </section>
  );
}

function ShardHeading({ shard, members }: { readonly shard: number; readonly members: readonly BackendRecord[] }) {
  const available = members.filter(({ availability }) => availability === 'available').length;
  return (
    <h4 className={styles.shard} data-state={available === 0 ? 'failed' : 'running'}>
      {`Shard ${shard}: ${available} of ${members.length} ${members.length === 1 ? 'replica' : 'replicas'} available`}
    </h4>
  );
}

function stateOf({ state, availability, alive }: BackendRecord, isSuspended: boolean): readonly [string, Tone] {
  if (state === 'disabled') return ['Disabled', 'warning'];
  if (state === 'decommissioning') return ['Decommissioning', 'warning'];
  if (state === 'decommissioned') return ['Decommissioned', 'neutral'];
  if (availability === 'catchingUp') return ['Catching up', 'accent'];
  if (alive && availability === 'available') return ['Available', 'success'];
  return isSuspended ? ['Stopped', 'neutral'] : ['Unavailable', 'danger'];
}

interface BackendProps {
  readonly warehouse: WarehouseRecord;
  readonly backend: BackendRecord;
  /** Those of its shard. */
  readonly members: readonly BackendRecord[];
}

function Backend({ warehouse, backend, members }: BackendProps) {
  const { backendId, errorMessage, decommission, state, lastStartAt, lastHeartbeatAt } = backend;
  const [label, tone] = stateOf(backend, warehouse.state === 'suspended');
  const isCluster = warehouse.cluster !== null;
  const Heading = isCluster ? 'h5' : 'h4';
  const isLast = !members.some((one) => one !== backend && one.availability === 'available');
  return (
    <article className={styles.card}>
      <header className={styles.heading}>
        <Heading>{backendId}</Heading>
        <Badge tone={tone}>{label}</Badge>
        <span className={styles.actions}>
          <BackendActions warehouse={warehouse} backend={backend} isLast={isLast} />
        </span>
      </header>
      {errorMessage !== null && <p className={styles.fault}>{errorMessage}</p>}
      {decommission !== null && state === 'decommissioning' && <Decommission decommission={decommission} />}
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
          { label: 'Spilled', value: isCluster ? null : formatBytes(backend.spilledBytes) },
          { label: 'Tables on disk', value: formatBytes(backend.dataUsedBytes) },
          { label: 'Tablets', value: formatCount(backend.tabletCount) },
          { label: 'Statements', value: formatCount(backend.runningQueries) },
          { label: 'Processor cores', value: backend.cpuCores === 0 ? null : formatCount(backend.cpuCores) },
          { label: 'Engine', value: [backend.engine, backend.engineVersion].filter(Boolean).join(' ') },
          { label: 'Location', value: backend.location === backend.engine ? null : backend.location },
          { label: 'Replica', value: backend.replica },
          { label: 'Zone', value: backend.zone },
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

/** A size as a part of its limit; 0: there is none. */
function Part({ label, used, of }: PartProps) {
  if (of === 0) return formatBytes(used);
  return (
    <span className={styles.part}>
      {formatBytes(used)} of {formatBytes(of)}
      <Progress label={`${label}, part of the limit`} value={Math.min(1, used / of)} />
    </span>
  );
}
