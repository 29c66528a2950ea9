// The room of warehouses: the list at the side, the one of the address beside it, /warehouses/<name>.
import { useQuery } from '@tanstack/react-query';
import { Plus, Server } from 'lucide-react';
import { useState } from 'react';
import { usePageTitle } from '../app/page_title.ts';
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
  const shown = named ?? data?.[0]?.name;
  const create = (
    <Button icon={<Plus aria-hidden />} onClick={() => setIsCreating(true)}>
      New warehouse
    </Button>
  );
  const form = isCreating && (
    <WarehouseForm onClose={() => setIsCreating(false)} onSaved={({ name }) => openRoom('warehouses', [name])} />
  );
  if (!data)
    return warehouses.error ? (
      <div className={styles.detail}>
        <ErrorPanel error={warehouses.error} title="The warehouses could not be listed" onRetry={warehouses.refetch} />
      </div>
    ) : (
      <Loading />
    );
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
            choices={data.map(({ name }) => ({ value: name, label: name }))}
            onChange={(name) => openRoom('warehouses', [name])}
          />
          {create}
        </div>
      ) : (
        <nav className={styles.list} aria-label="Warehouses">
          <ul>
            {data.map((warehouse) => (
              <Item key={warehouse.name} warehouse={warehouse} isShown={warehouse.name === shown} />
            ))}
          </ul>
          {create}
          <Servers />
        </nav>
      )}
      <WarehouseDetail key={shown} name={shown} onDeleted={() => openRoom('warehouses')} />
      {form}
    </div>
  );
}

function Item({ warehouse, isShown }: { readonly warehouse: WarehouseRecord; readonly isShown: boolean }) {
  const { name, state, runningQueries, queuedQueries, health } = warehouse;
  const isWell = health.status === 'healthy' || state === 'suspended';
  return (
    <li data-shown={isShown}>
      <RoomLink room="warehouses" names={[name]}>
        <span className={styles.name}>
          <span className={styles.dot} data-state={isWell ? state : 'failed'} aria-hidden />
          {name}
        </span>
        <span className={styles.muted}>
          {state === 'running' ? `${runningQueries} running · ${queuedQueries} queued` : stateLabels[state]}
          {!isWell && ` · ${health.status}`}
        </span>
      </RoomLink>
    </li>
  );
}
