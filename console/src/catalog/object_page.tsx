// The frame of the page of an object: where it is, its name and state, what can be done with it, and its tabs, one of which is in the
// address.
import { Database, Eye, Library, MoreHorizontal, Pencil, Table2 } from 'lucide-react';
import { Fragment, type ReactNode, useState } from 'react';
import { RoomLink, useOpenRoom, useRoomPath, useRoomSearch } from '../app/room_path.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { Badge } from '../ui/feedback.tsx';
import { PageHead } from '../ui/layout/page.tsx';
import { type Tab, Tabs } from '../ui/layout/tabs.tsx';
import { Menu } from '../ui/overlays/menu.tsx';
import { CloneDialog, DropDialog, EditDialog, RenameDialog } from './dialogs/change_dialogs.tsx';
import { MoveDialog } from './dialogs/move_dialog.tsx';
import { nameOf, type ObjectKind, type ObjectRecord, type ObjectRef } from './object_ref.ts';

interface ObjectPageProps {
  readonly object: ObjectRef;
  readonly record: ObjectRecord;
  readonly tabs: readonly Tab<string>[];
  /** Buttons before `Edit`. */
  readonly actions?: ReactNode;
}

const icons: Readonly<Record<ObjectKind, ReactNode>> = {
  catalog: <Library aria-hidden />,
  database: <Database aria-hidden />,
  table: <Table2 aria-hidden />,
  view: <Eye aria-hidden />,
};

type Change = 'edit' | 'rename' | 'clone' | 'move' | 'drop';

export function ObjectPage({ object, record, tabs, actions }: ObjectPageProps) {
  const { kind } = object;
  const [change, setChange] = useState<Change>();
  const close = () => setChange(undefined);
  return (
    <>
      <PageHead
        icon={icons[kind]}
        title={record.name}
        path={<ObjectPath path={object.path.slice(0, -1)} />}
        marks={
          <>
            <Badge>{kind}</Badge>
            {record.state !== 'ready' && <Badge tone="warning">{record.state}</Badge>}
            {record.state === 'altering' && kind === 'catalog' && (
              <RoomLink room="tasks" search={{ type: 'move_catalog' }}>
                Show moves
              </RoomLink>
            )}
          </>
        }
        description={record.stateReason ?? record.comment ?? undefined}
        actions={
          <>
            {actions}
            <Button icon={<Pencil aria-hidden />} onClick={() => setChange('edit')}>
              Edit
            </Button>
            <Menu
              align="end"
              trigger={
                <IconButton label="More actions" look="secondary">
                  <MoreHorizontal aria-hidden />
                </IconButton>
              }
              items={[
                { label: 'Rename…', onSelect: () => setChange('rename') },
                ...(kind === 'table' ? [{ label: 'Clone…', onSelect: () => setChange('clone') }] : []),
                ...(kind === 'catalog' ? [{ label: 'Move…', onSelect: () => setChange('move') }] : []),
                'separator',
                { label: 'Drop…', isDangerous: true, onSelect: () => setChange('drop') },
              ]}
            />
          </>
        }
      />
      <ObjectTabs label={`About ${nameOf(object)}`} tabs={tabs} />
      {change === 'edit' && <EditDialog object={object} record={record} onClose={close} />}
      {change === 'rename' && <RenameDialog object={object} onClose={close} />}
      {change === 'clone' && <CloneDialog object={object} onClose={close} />}
      {change === 'move' && record.warehouse !== undefined && (
        <MoveDialog catalog={record.name} from={record.warehouse} onClose={close} />
      )}
      {change === 'drop' && <DropDialog object={object} onClose={close} />}
    </>
  );
}

/** The tab is in the address: `?tab=columns`. */
function ObjectTabs({ label, tabs }: { readonly label: string; readonly tabs: readonly Tab<string>[] }) {
  const names = useRoomPath();
  const search = useRoomSearch();
  const openRoom = useOpenRoom();
  const value = tabs.find((tab) => tab.value === search.tab)?.value ?? tabs[0]?.value ?? '';
  const select = (tab: string) => openRoom('catalog', names, { ...search, tab }, { replace: true });
  return <Tabs label={label} tabs={tabs} value={value} onChange={select} />;
}

export function ObjectPath({ path }: { readonly path: readonly string[] }) {
  return (
    <>
      <RoomLink room="catalog">Catalogs</RoomLink>
      {path.map((name, i) => (
        <Fragment key={path.slice(0, i + 1).join('/')}>
          <span aria-hidden>/</span>
          <RoomLink room="catalog" names={path.slice(0, i + 1)}>
            {name}
          </RoomLink>
        </Fragment>
      ))}
    </>
  );
}
