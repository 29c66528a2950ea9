// What is wrong with a warehouse and what an operator can do: blocked changes, quarantined statements, catalogs that are out of use.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Task } from '../../../src/client/index.ts';
import { failureOf } from '../app/queries.ts';
import { useOpenRoom } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { formatAgo, formatCount } from '../ui/format.ts';
import { showFailure, showToast } from '../ui/overlays/toasts.tsx';
import type { WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

interface NoticeProps {
  readonly title: string;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}

function Notice({ title, children, action }: NoticeProps) {
  return (
    <div className={styles.notice}>
      <TriangleAlert aria-hidden />
      <div>
        <strong>{title}</strong>
        {children}
        {action}
      </div>
    </div>
  );
}

export function Problems({ warehouse }: { readonly warehouse: WarehouseRecord }) {
  const { state, health } = warehouse;
  const isSuspended = state === 'suspended';
  return (
    <>
      {health.status !== 'healthy' && !isSuspended && (
        <Notice title={health.status === 'degraded' ? 'It works, with restrictions' : 'It is unavailable'}>
          <p>{health.message}</p>
          {warehouse.replicated === false && warehouse.availableBackendCount < warehouse.backendCount && (
            <p>Its servers do not replicate tables: writes and changes are refused until all are available.</p>
          )}
        </Notice>
      )}
      <Blocked warehouse={warehouse} />
      <Quarantined warehouse={warehouse} />
      <CatalogsOutOfUse warehouse={warehouse.name} />
    </>
  );
}

function useRelease(release: () => Promise<{ readonly released: number }>, what: string) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: release,
    onSuccess: ({ released }) => showToast(`${formatCount(released)} ${what} released`),
    onError: (error) => showFailure('Nothing was released', error),
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['warehouses'] }),
  });
}

function Blocked({ warehouse: { name, blocked, blockedChanges } }: { readonly warehouse: WarehouseRecord }) {
  const release = useRelease(() => client.warehouses(name).releaseBlockedChanges(), 'changes');
  if (blockedChanges === 0) return null;
  return (
    <Notice
      title={blockedChanges === 1 ? '1 change is blocked' : `${formatCount(blockedChanges)} changes are blocked`}
      action={
        <Button size="small" disabled={release.isPending} onClick={() => release.mutate()}>
          Try them again
        </Button>
      }
    >
      <p>
        They were interrupted, and recovery ended the engine twice. A change or a deletion of the object tries again
        too.
      </p>
      <ul>
        {blocked.map(({ category, path, change, reason, since }) => (
          <li key={`${category} ${path?.join('.')} ${since}`}>
            {change} of {category} <code>{path?.join('.') ?? 'that you may not read'}</code>, {formatAgo(since)}:{' '}
            {reason}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function Quarantined({ warehouse: { name, quarantinedStatements } }: { readonly warehouse: WarehouseRecord }) {
  const release = useRelease(() => client.warehouses(name).releaseQuarantine(), 'statements');
  if (quarantinedStatements === 0) return null;
  return (
    <Notice
      title={
        quarantinedStatements === 1
          ? '1 statement is quarantined'
          : `${formatCount(quarantinedStatements)} statements are quarantined`
      }
      action={
        <Button size="small" disabled={release.isPending} onClick={() => release.mutate()}>
          Release
        </Button>
      }
    >
      <p>A statement that ends the engine is refused for ten minutes. If the cause is corrected, release it.</p>
    </Notice>
  );
}

function CatalogsOutOfUse({ warehouse }: { readonly warehouse: string }) {
  const openRoom = useOpenRoom();
  const catalogs = useQuery({
    queryKey: ['catalogs', 'out of use', warehouse],
    queryFn: async ({ signal }) => {
      const all = await client.catalogs.list({ pageSize: 200 }, { signal }).all();
      return all.filter((one) => one.warehouse === warehouse && (one.state === 'damaged' || one.state === 'blocked'));
    },
    refetchInterval: 15_000,
  });
  const check = useMutation({
    mutationFn: async (name: string) => client.catalogs(name).check(),
    onSuccess: (answer) => answer instanceof Task && openRoom('tasks', [answer.taskId]),
    onError: (error) => showFailure('The check could not be started', error),
  });
  const failure = failureOf(catalogs);
  if (failure)
    return <ErrorPanel error={failure} title="The catalogs could not be listed" onRetry={catalogs.refetch} />;
  return catalogs.data?.map(({ name, state, stateReason }) => (
    <Notice
      key={name}
      title={`The catalog ${name} is ${state}`}
      action={
        <Button size="small" disabled={check.isPending} onClick={() => check.mutate(name)}>
          Check the catalog
        </Button>
      }
    >
      <p>{stateReason}</p>
      <p>A check reads the whole catalog, says what is wrong, and puts it back into use if nothing is.</p>
    </Notice>
  ));
}
