// One warehouse: its state and what can be done with it, problems, load, usage over time, statements, backends and limits.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Pause, Pencil, Play, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { failureOf } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { catalogChanged } from '../catalog/object_ref.ts';
import { Button, IconButton } from '../ui/button.tsx';
import { Facts } from '../ui/data/facts.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Badge, Loading, Spinner } from '../ui/feedback.tsx';
import { Checkbox } from '../ui/field.tsx';
import { formatBytes, formatCount, formatDuration } from '../ui/format.ts';
import { Confirmation } from '../ui/overlays/confirmation.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import { Backends } from './backends.tsx';
import { Problems } from './problems.tsx';
import { Statements } from './statements.tsx';
import { recordUsage, usageOf } from './usage.ts';
import { UsageChart } from './usage_chart.tsx';
import { WarehouseForm } from './warehouse_form.tsx';
import { type BackendRecord, stateLabels, stateTones, type WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

const refetchEveryMs = 2000;

interface WarehouseDetailProps {
  readonly name: string;
  readonly onDeleted: () => void;
  /** What follows below it. */
  readonly children?: ReactNode;
}

export function WarehouseDetail({ name, onDeleted, children }: WarehouseDetailProps) {
  const warehouse = useQuery({
    queryKey: ['warehouses', name],
    queryFn: ({ signal }) => client.warehouses(name).get({ signal }),
    refetchInterval: refetchEveryMs,
  });
  const backends = useQuery({
    queryKey: ['warehouses', name, 'backends'],
    queryFn: async ({ signal }) => {
      const items = await client.warehouses(name).backends.list({ pageSize: 200 }, { signal }).all();
      recordUsage(name, items);
      return items;
    },
    refetchInterval: refetchEveryMs,
    // A reading without a change is a sample, too.
    structuralSharing: false,
  });
  const { data } = warehouse;
  // What was read before stays, because forms may be open in it.
  const failure = failureOf(warehouse);
  const backendsFailure = failureOf(backends);
  if (!data)
    return failure ? (
      <div className={styles.detail}>
        <ErrorPanel error={failure} title="The warehouse could not be read" onRetry={warehouse.refetch} />
      </div>
    ) : (
      <Loading />
    );
  return (
    <div className={styles.detail}>
      <header className={styles.heading}>
        <h2>{name}</h2>
        <Badge tone={stateTones[data.state]}>{stateLabels[data.state]}</Badge>
        <span className={styles.space} />
        <Actions warehouse={data} onDeleted={onDeleted} />
      </header>
      {data.comment !== null && <p className={styles.muted}>{data.comment}</p>}
      {failure && <ErrorPanel error={failure} title="The state could not be read again" onRetry={warehouse.refetch} />}
      <Problems warehouse={data} />
      <Load warehouse={data} backends={backends.data} />
      <Usage name={name} hasSpill={data.cluster === null} />
      <Statements warehouse={name} />
      {backendsFailure && (
        <ErrorPanel error={backendsFailure} title="The backends could not be listed" onRetry={backends.refetch} />
      )}
      {backends.data ? (
        <Backends warehouse={data} backends={backends.data} />
      ) : (
        !backendsFailure && <Loading label="Reading the backends…" />
      )}
      <Limits warehouse={data} />
      {children}
    </div>
  );
}

function Actions({ warehouse, onDeleted }: { readonly warehouse: WarehouseRecord; readonly onDeleted: () => void }) {
  const [open, setOpen] = useState<'edit' | 'suspend' | 'delete'>();
  const close = () => setOpen(undefined);
  const queryClient = useQueryClient();
  const { name, state } = warehouse;
  const onSettled = () => queryClient.invalidateQueries({ queryKey: ['warehouses'] });
  const resume = useMutation({
    mutationFn: () => client.warehouses(name).resume(),
    onError: (error) => showFailure('The warehouse could not be resumed', error),
    onSettled,
  });
  const suspend = useMutation({ mutationFn: () => client.warehouses(name).suspend(), onSuccess: close, onSettled });
  return (
    <>
      {state === 'suspended' || state === 'failed' ? (
        <Button
          look="primary"
          icon={resume.isPending ? <Spinner label="Starting" /> : <Play aria-hidden />}
          disabled={resume.isPending}
          onClick={() => resume.mutate()}
        >
          {resume.isPending ? 'Starting…' : 'Resume'}
        </Button>
      ) : (
        <Button icon={<Pause aria-hidden />} onClick={() => setOpen('suspend')}>
          Suspend
        </Button>
      )}
      <IconButton label="Change" onClick={() => setOpen('edit')}>
        <Pencil aria-hidden />
      </IconButton>
      <IconButton label="Delete" onClick={() => setOpen('delete')}>
        <Trash2 aria-hidden />
      </IconButton>
      {open === 'edit' && <WarehouseForm warehouse={warehouse} onClose={close} />}
      <Confirmation
        title={`Suspend ${name}?`}
        label="Suspend warehouse"
        failedTitle="The warehouse was not suspended"
        isOpen={open === 'suspend'}
        isPending={suspend.isPending}
        error={suspend.error}
        onClose={close}
        onConfirm={() => suspend.mutate()}
      >
        <p>Its running statements end, and new ones are refused until it is resumed.</p>
      </Confirmation>
      {open === 'delete' && <Deletion warehouse={warehouse} onClose={close} onDeleted={onDeleted} />}
    </>
  );
}

interface DeletionProps {
  readonly warehouse: WarehouseRecord;
  readonly onClose: () => void;
  readonly onDeleted: () => void;
}

function Deletion({ warehouse, onClose, onDeleted }: DeletionProps) {
  const { name, cluster, backendCount, availableBackendCount } = warehouse;
  const queryClient = useQueryClient();
  const [withCatalogs, setWithCatalogs] = useState(false);
  const remove = useMutation({
    mutationFn: async () => client.warehouses(name).delete(withCatalogs ? { cascade: true } : {}),
    onSuccess: onDeleted,
    onSettled: () => {
      if (withCatalogs) catalogChanged();
      return queryClient.invalidateQueries({ queryKey: ['warehouses'] });
    },
  });
  const isLost = cluster !== null && backendCount > 0 && availableBackendCount === 0;
  return (
    <Confirmation
      title={`Delete ${name}?`}
      label={withCatalogs ? 'Delete warehouse and catalogs' : 'Delete warehouse'}
      failedTitle="The warehouse was not deleted"
      isOpen
      isPending={remove.isPending}
      error={remove.error}
      onClose={onClose}
      onConfirm={() => remove.mutate()}
    >
      <p>A warehouse that has catalogs cannot be deleted: move or drop them first.</p>
      {isLost && (
        <Checkbox
          label="Its cluster is lost for good: delete the catalogs with it"
          isChecked={withCatalogs}
          onChange={setWithCatalogs}
        />
      )}
    </Confirmation>
  );
}

interface LoadProps {
  readonly warehouse: WarehouseRecord;
  /** Undefined while they are being read. */
  readonly backends: readonly BackendRecord[] | undefined;
}

function Load({ warehouse, backends }: LoadProps) {
  const sum = (field: 'memoryUsedBytes' | 'memoryLimitBytes' | 'spilledBytes') =>
    backends?.reduce((total, one) => total + one[field], 0);
  const bytes = (field: 'memoryUsedBytes' | 'spilledBytes') => {
    const used = sum(field);
    return used === undefined ? '–' : formatBytes(used);
  };
  const { cluster, runningQueries, queriesMax, queuedQueries, queueMax, availableBackendCount, backendCount } =
    warehouse;
  // 0: the server has no limit of its own.
  const isLimited = backends?.every((backend) => backend.memoryLimitBytes > 0) === true;
  const memoryLimitBytes = warehouse.memoryLimitBytes ?? (isLimited ? sum('memoryLimitBytes') : undefined);
  return (
    <div className={styles.tiles}>
      <Tile label="Running" value={formatCount(runningQueries)} of={`of ${formatCount(queriesMax)} statements`} />
      <Tile label="In the queue" value={formatCount(queuedQueries)} of={`of ${formatCount(queueMax)} places`} />
      <Tile
        label="Memory"
        value={bytes('memoryUsedBytes')}
        of={memoryLimitBytes ? `of ${formatBytes(memoryLimitBytes)}` : 'of all backends'}
      />
      {cluster === null && (
        <Tile
          label="Spilled"
          value={bytes('spilledBytes')}
          of={warehouse.spillLimitBytes === null ? 'to disk' : `of ${formatBytes(warehouse.spillLimitBytes)}`}
        />
      )}
      <Tile
        label="Backends"
        value={formatCount(availableBackendCount)}
        of={`of ${formatCount(backendCount)} available`}
      />
    </div>
  );
}

interface TileProps {
  readonly label: string;
  readonly value: string;
  readonly of: string;
}

const Tile = ({ label, value, of }: TileProps) => (
  <div className={styles.tile}>
    <span className={styles.muted}>{label}</span>
    <strong>{value}</strong>
    <span className={styles.muted}>{of}</span>
  </div>
);

/** `hasSpill`: the servers of a cluster do not report what they spill. */
function Usage({ name, hasSpill }: { readonly name: string; readonly hasSpill: boolean }) {
  const samples = usageOf(name);
  const [first] = samples;
  return (
    <section className={styles.section}>
      <header className={styles.heading}>
        <h3>{hasSpill ? 'Memory and spill' : 'Memory'}</h3>
        {hasSpill && (
          <>
            <span className={styles.legend} data-series="memory">
              Memory
            </span>
            <span className={styles.legend} data-series="spill">
              Spill
            </span>
          </>
        )}
        <span className={styles.space} />
        <span className={styles.muted}>
          {first && samples.length > 1
            ? `The last ${formatDuration((samples.at(-1)?.at ?? first.at) - first.at)}, since this page was opened`
            : 'Measured while this page is open'}
        </span>
      </header>
      <UsageChart samples={samples} hasSpill={hasSpill} />
    </section>
  );
}

/** The servers of a cluster have limits of their own. */
const ofServers = 'set on its servers';

const copiesText = (isReplicated: boolean | null) =>
  isReplicated === null ? null : isReplicated ? 'replicated by the servers' : 'written with each statement';

function Limits({ warehouse }: { readonly warehouse: WarehouseRecord }) {
  const { autoSuspendSeconds, autoResume, statementTimeoutSeconds, threads, engine, owner, confinement } = warehouse;
  const { memoryLimitBytes, spillLimitBytes } = warehouse;
  const inactive = confinement.filter(({ active }) => !active);
  return (
    <section className={styles.section}>
      <h3>Limits</h3>
      <Facts
        facts={[
          { label: 'Memory', value: memoryLimitBytes === null ? ofServers : formatBytes(memoryLimitBytes) },
          { label: 'Temporary disk', value: spillLimitBytes === null ? ofServers : formatBytes(spillLimitBytes) },
          { label: 'Threads', value: threads === null ? ofServers : formatCount(threads) },
          { label: 'Statements at a time', value: formatCount(warehouse.queriesMax) },
          { label: 'Queue length', value: formatCount(warehouse.queueMax) },
          { label: 'Time limit of a statement', value: formatDuration(statementTimeoutSeconds * 1000) },
          {
            label: 'Suspended when idle',
            value: !autoSuspendSeconds ? 'never' : `after ${formatDuration(autoSuspendSeconds * 1000)}`,
          },
          { label: 'Resumed', value: autoResume ? 'with the next statement' : autoResume === null ? null : 'by hand' },
          { label: 'Engine', value: [engine, ...warehouse.engineVersions].join(' ') },
          { label: 'Cluster', value: warehouse.cluster },
          { label: 'Shards', value: warehouse.shardCount === null ? null : formatCount(warehouse.shardCount) },
          {
            label: 'Replicas of a shard',
            value: warehouse.replicaCount === null ? null : formatCount(warehouse.replicaCount),
          },
          { label: 'Copies', value: copiesText(warehouse.replicated) },
          { label: 'Connects as', value: warehouse.user },
          { label: 'Owner', value: owner },
          {
            label: 'Confined by',
            value:
              confinement
                .filter(({ active }) => active)
                .map(({ measure }) => measure)
                .join(', ') || null,
          },
          {
            label: 'Not confined by',
            value:
              inactive.length === 0 ? null : inactive.map(({ measure, reason }) => `${measure}: ${reason}`).join('; '),
          },
        ]}
      />
    </section>
  );
}
