// The room of warehouses: the list at the side, the one of the address beside it, /warehouses/<name>.
import { useQuery } from '@tanstack/react-query';
import { Plus, Server } from 'lucide-react';
import { useState } from 'react';
import { usePageTitle } from '../app/page_title.ts';
import { failureOf } from '../app/queries.ts';
import { RoomLink, useOpenRoom, useRoomPath } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { EmptyState, Loading } from '../ui/feedback.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { useIsNarrow } from '../ui/use_media.ts';
import { Servers } from './servers.tsx';
import { WarehouseDetail } from './warehouse_detail.tsx';
import { WarehouseForm } from './warehouse_form.tsx';
import { stateLabels, type WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

const refetchEveryMs = 3000;

export function Room() {
  const [named] = useRoomPath();
  usePageTitle(named);
  const openRoom = useOpenRoom();
  const isNarrow = useIsNarrow();
  const [isCreating, setIsCreating] = useState(false);
  const warehouses = useQuery({
    queryKey: ['warehouses', 'list'],
    queryFn: ({ signal }) => client.warehouses.list({ pageSize: 200 }, { signal }).all(),
    refetchInterval: refetchEveryMs,
  });
  const { data } = warehouses;
  const failure = failureOf(warehouses);
  const shown = named ?? data?.[0]?.name;
  const create = (
    <Button icon={<Plus aria-hidden />} onClick={() => setIsCreating(true)}>
      New warehouse
    </Button>
  );
  const form = isCreating && (
    <WarehouseForm onClose={() => setIsCreating(false)} onSaved={({ name }) => openRoom('warehouses', [name])} />
  );
  const failed = failure && (
    <ErrorPanel error={failure} title="The warehouses could not be listed" onRetry={warehouses.refetch} />
  );
  if (!data) return failed ? <div className={styles.detail}>{failed}</div> : <Loading />;
  if (shown === undefined)
    return (
      <>
        <EmptyState icon={<Server aria-hidden />} title="There is no warehouse that you may read" actions={create}>
          A warehouse is an engine that runs SQL, with limits of its own.
        </EmptyState>
        {form}
      </>
    );
  return (
    <div className={styles.room}>
      {isNarrow ? (
        <div className={styles.chooser}>
          <Select
            label="Warehouse"
            value={shown}
            choices={data.map((one) => ({
              value: one.name,
              label: isWell(one) ? one.name : `${one.name} · ${one.health.status}`,
            }))}
            onChange={(name) => openRoom('warehouses', [name])}
          />
          {create}
        </div>
      ) : (
        <nav className={styles.list} aria-label="Warehouses">
          {failed}
          <ul>
            {data.map((warehouse) => (
              <Item key={warehouse.name} warehouse={warehouse} isShown={warehouse.name === shown} />
            ))}
          </ul>
          {create}
          <Servers />
        </nav>
      )}
      <WarehouseDetail key={shown} name={shown} onDeleted={() => openRoom('warehouses')}>
        {isNarrow && <Servers />}
      </WarehouseDetail>
      {form}
    </div>
  );
}

const isWell = ({ health, state }: WarehouseRecord): boolean => health.status === 'healthy' || state === 'suspended';

const dotOf = (warehouse: WarehouseRecord): string => {
  if (isWell(warehouse)) return warehouse.state;
  return warehouse.health.status === 'degraded' ? 'degraded' : 'failed';
};

function Item({ warehouse, isShown }: { readonly warehouse: WarehouseRecord; readonly isShown: boolean }) {
  const { name, state, runningQueries, queuedQueries, health } = warehouse;
  return (
    <li data-shown={isShown}>
      <RoomLink room="warehouses" names={[name]}>
        <span className={styles.name}>
          <span className={styles.dot} data-state={dotOf(warehouse)} aria-hidden />
          {name}
        </span>
        <span className={styles.muted}>
          {state === 'running' ? `${runningQueries} running · ${queuedQueries} queued` : stateLabels[state]}
          {!isWell(warehouse) && ` · ${health.status}`}
        </span>
      </RoomLink>
    </li>
  );
}
