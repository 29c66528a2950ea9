// How a table is stored: its tablets, and the replicas of the one that is opened by backend.
import { useState } from 'react';
import { usePages } from '../../app/queries.ts';
import { client } from '../../app/session.ts';
import { type Column, DataTable } from '../../ui/data/data_table.tsx';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { Badge, EmptyState, type Tone } from '../../ui/feedback.tsx';
import { formatBytes, formatCount } from '../../ui/format.ts';
import { PageBody, Toolbar } from '../../ui/layout/page.tsx';
import { tableIn } from '../object_ref.ts';

/** Servers are lost and return while the page is open. */
const refetchEveryMs = 5000;

interface Stored {
  readonly state: string;
  readonly rowCount: number | null;
  readonly dataBytes: number | null;
}
interface Tablet extends Stored {
  readonly tabletId: string;
  readonly replicaCount: number;
  readonly availableReplicaCount: number;
}
interface Replica extends Stored {
  readonly replicaId: string;
  readonly backendId: string;
}

const stateColumn = <R extends Stored>(toneOf: (record: R) => Tone): Column<R> => ({
  id: 'state',
  header: 'State',
  value: ({ state }) => state,
  render: (record) => <Badge tone={toneOf(record)}>{record.state}</Badge>,
});

const measuredColumns = <R extends Stored>(): readonly Column<R>[] => [
  {
    id: 'rows',
    header: 'Rows',
    isNumber: true,
    value: ({ rowCount }) => rowCount,
    render: ({ rowCount }) => (rowCount === null ? '–' : formatCount(rowCount)),
  },
  {
    id: 'size',
    header: 'Size',
    isNumber: true,
    value: ({ dataBytes }) => dataBytes,
    render: ({ dataBytes }) => (dataBytes === null ? '–' : formatBytes(dataBytes)),
  },
];

/** Green only if all replicas are available: with one less, the next failure may make it unavailable. */
function tabletTone({ state, replicaCount, availableReplicaCount }: Tablet): Tone {
  if (state !== 'available') return 'danger';
  return availableReplicaCount < replicaCount ? 'warning' : 'success';
}

const tabletColumns: readonly Column<Tablet>[] = [
  { id: 'tablet', header: 'Tablet', value: ({ tabletId }) => tabletId },
  stateColumn(tabletTone),
  ...measuredColumns<Tablet>(),
  {
    id: 'replicas',
    header: 'Replicas',
    value: ({ availableReplicaCount }) => availableReplicaCount,
    render: ({ availableReplicaCount, replicaCount }) => `${availableReplicaCount} of ${replicaCount} available`,
  },
];

const replicaColumns: readonly Column<Replica>[] = [
  { id: 'replica', header: 'Replica', value: ({ replicaId }) => replicaId },
  { id: 'backend', header: 'Backend', value: ({ backendId }) => backendId },
  stateColumn(({ state }) => (state === 'available' ? 'success' : 'danger')),
  ...measuredColumns<Replica>(),
];

export function TabletsTab({ path }: { readonly path: readonly string[] }) {
  const [opened, setOpened] = useState<string>();
  const { items, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = usePages<Tablet>(
    ['tablets', ...path],
    (signal) => tableIn(client, path).tablets.list({}, { signal }),
    { refetchEveryMs },
  );
  if (error) return <Failure error={error} onRetry={refetch} />;
  const [first] = items ?? [];
  const shown = opened ?? first?.tabletId;
  return (
    <>
      <DataTable
        label="Tablets"
        columns={tabletColumns}
        records={items}
        keyOf={({ tabletId }) => tabletId}
        onOpen={({ tabletId }) => setOpened(tabletId)}
        onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
        empty={<EmptyState title="The table has no tablets" />}
      />
      {shown !== undefined && <Replicas path={path} tablet={shown} />}
    </>
  );
}

function Replicas({ path, tablet }: { readonly path: readonly string[]; readonly tablet: string }) {
  const { items, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = usePages<Replica>(
    ['tablets', ...path, tablet, 'replicas'],
    (signal) => tableIn(client, path).tablets(tablet).replicas.list({}, { signal }),
    { refetchEveryMs },
  );
  if (error) return <Failure error={error} onRetry={refetch} />;
  const title = `Replicas of tablet ${tablet}`;
  return (
    <>
      <Toolbar>
        <h3>{title}</h3>
      </Toolbar>
      <DataTable
        label={title}
        columns={replicaColumns}
        records={items}
        keyOf={({ replicaId }) => replicaId}
        onEnd={hasNextPage && !isFetchingNextPage ? fetchNextPage : undefined}
        empty={<EmptyState title="The tablet has no replicas" />}
      />
    </>
  );
}

const Failure = ({ error, onRetry }: { readonly error: unknown; readonly onRetry: () => unknown }) => (
  <PageBody label="Failure">
    <ErrorPanel error={error} title="The storage of the table cannot be shown" onRetry={onRetry} />
  </PageBody>
);
