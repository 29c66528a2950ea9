// The page of a catalog or a database: what is in it, its fields, grants and history.
import { useQuery } from '@tanstack/react-query';
import { Plus, Undo2 } from 'lucide-react';
import { useState } from 'react';
import { GrantsOn } from '../access/grants_on.tsx';
import { RoomLink } from '../app/room_path.tsx';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { formatCount } from '../ui/format.ts';
import type { Tab } from '../ui/layout/tabs.tsx';
import { Menu } from '../ui/overlays/menu.tsx';
import { Contents } from './contents.tsx';
import { CreateDatabaseDialog, CreateTableDialog, CreateViewDialog } from './dialogs/create_dialogs.tsx';
import { UndropDialog } from './dialogs/undrop_dialog.tsx';
import { ObjectFacts } from './object_facts.tsx';
import { ObjectPage } from './object_page.tsx';
import { keyOf, type ObjectRecord, type ObjectRef } from './object_ref.ts';
import { Reading } from './reading.tsx';
import { HistoryTab } from './tabs/history_tab.tsx';

const changingRefetchMs = 3000;

export function ContainerPage({ object }: { readonly object: ObjectRef }) {
  return object.kind === 'catalog' ? <CatalogPage object={object} /> : <DatabasePage object={object} />;
}

function CatalogPage({ object }: { readonly object: ObjectRef }) {
  const { path } = object;
  const [catalog = ''] = path;
  const read = useQuery({
    queryKey: keyOf(object),
    queryFn: ({ signal }) => client.catalogs(catalog).get({ signal }),
    // A move, for example, ends by itself.
    refetchInterval: ({ state }) => state.data !== undefined && state.data.state !== 'ready' && changingRefetchMs,
  });
  const [dialog, setDialog] = useState<'create' | 'undrop'>();
  const close = () => setDialog(undefined);
  return (
    <Reading read={read} what="catalog" contents={<Contents kind="database" parent={path} />}>
      {(record) => (
        <>
          <ObjectPage
            object={object}
            record={record}
            tabs={[
              { value: 'databases', label: 'Databases', content: <Contents kind="database" parent={path} /> },
              {
                value: 'overview',
                label: 'Overview',
                content: <ObjectFacts record={record} facts={[{ label: 'Warehouse', value: warehouseLink(record) }]} />,
              },
              ...commonTabs(record),
            ]}
            actions={
              <>
                <Button icon={<Undo2 aria-hidden />} onClick={() => setDialog('undrop')}>
                  Undrop
                </Button>
                <Button look="primary" icon={<Plus aria-hidden />} onClick={() => setDialog('create')}>
                  Create database
                </Button>
              </>
            }
          />
          {dialog === 'create' && <CreateDatabaseDialog parent={path} onClose={close} />}
          {dialog === 'undrop' && <UndropDialog kinds={['database']} parent={path} onClose={close} />}
        </>
      )}
    </Reading>
  );
}

const warehouseLink = ({ warehouse }: { readonly warehouse: string }) => (
  <RoomLink room="warehouses" names={[warehouse]}>
    {warehouse}
  </RoomLink>
);

function DatabasePage({ object }: { readonly object: ObjectRef }) {
  const { path } = object;
  const [catalog = '', database = ''] = path;
  const read = useQuery({
    queryKey: keyOf(object),
    queryFn: ({ signal }) => client.catalogs(catalog).databases(database).get({ signal }),
  });
  const [dialog, setDialog] = useState<'table' | 'view' | 'undrop'>();
  const close = () => setDialog(undefined);
  return (
    <Reading read={read} what="database" contents={<Contents kind="table" parent={path} />}>
      {(record) => (
        <>
          <ObjectPage
            object={object}
            record={record}
            tabs={[
              {
                value: 'tables',
                label: `Tables ${formatCount(record.tableCount)}`,
                content: <Contents kind="table" parent={path} />,
              },
              {
                value: 'views',
                label: `Views ${formatCount(record.viewCount)}`,
                content: <Contents kind="view" parent={path} />,
              },
              { value: 'overview', label: 'Overview', content: <ObjectFacts record={record} /> },
              ...commonTabs(record),
            ]}
            actions={
              <>
                <Button icon={<Undo2 aria-hidden />} onClick={() => setDialog('undrop')}>
                  Undrop
                </Button>
                <Menu
                  align="end"
                  trigger={
                    <Button look="primary" icon={<Plus aria-hidden />}>
                      Create
                    </Button>
                  }
                  items={[
                    { label: 'Table…', onSelect: () => setDialog('table') },
                    { label: 'View…', onSelect: () => setDialog('view') },
                  ]}
                />
              </>
            }
          />
          {dialog === 'table' && <CreateTableDialog parent={path} onClose={close} />}
          {dialog === 'view' && <CreateViewDialog parent={path} onClose={close} />}
          {dialog === 'undrop' && <UndropDialog kinds={['table', 'view']} parent={path} onClose={close} />}
        </>
      )}
    </Reading>
  );
}

/** Of objects of every kind. */
export const commonTabs = (record: ObjectRecord): readonly Tab<string>[] => [
  { value: 'grants', label: 'Grants', content: <GrantsOn uri={record.uri} /> },
  { value: 'history', label: 'History', content: <HistoryTab uri={record.uri} /> },
];
