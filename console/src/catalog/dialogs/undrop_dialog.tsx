// Dropped objects that can be brought back: a list, and the form for the one that is chosen.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useOpenRoom } from '../../app/room_path.tsx';
import { client } from '../../app/session.ts';
import { CallDialog } from '../../forms/call_dialog.tsx';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data/data_table.tsx';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { EmptyState, Loading } from '../../ui/feedback.tsx';
import { Field, TextInput } from '../../ui/field.tsx';
import { formatAgo } from '../../ui/format.ts';
import { Dialog } from '../../ui/overlays/dialog.tsx';
import { catalogChanged, categoryOf, collectionIn, type ObjectKind, searchOf } from '../object_ref.ts';
import styles from './undrop_dialog.module.css';

interface UndropProps {
  readonly kinds: readonly ObjectKind[];
  /** The names of what contained them. */
  readonly parent: readonly string[];
  readonly onClose: () => void;
}

interface Dropped {
  readonly kind: ObjectKind;
  readonly id: string;
  readonly name: string;
  readonly droppedAt: string;
  readonly droppedBy: string;
  readonly undropUntil: string;
}

const droppedMax = 1000;

/** The last dropped first; at most `droppedMax` of each kind. */
async function readDropped({ kinds, parent }: Omit<UndropProps, 'onClose'>, signal: AbortSignal): Promise<Dropped[]> {
  const pages = await Promise.all(
    kinds.map(async (kind) => {
      const search = collectionIn(client, kind, parent).search;
      const { items } = await search({ dropped: true, pageSize: droppedMax }, { signal }).page();
      return items.map(({ id = '', name, droppedAt = '', droppedBy = '', undropUntil = '' }) => ({
        kind,
        id,
        name,
        droppedAt,
        droppedBy,
        undropUntil,
      }));
    }),
  );
  return pages.flat().sort((a, b) => (a.droppedAt < b.droppedAt ? 1 : -1));
}

export function UndropDialog({ kinds, parent, onClose }: UndropProps) {
  const [chosen, setChosen] = useState<Dropped>();
  const { data, error, refetch } = useQuery({
    queryKey: [categoryOf[kinds[0] ?? 'table'], 'dropped', ...parent],
    queryFn: ({ signal }) => readDropped({ kinds, parent }, signal),
    staleTime: 0,
  });
  if (chosen) return <UndropOne dropped={chosen} parent={parent} onClose={onClose} />;
  return (
    <Dialog
      title="Undrop"
      description="What was dropped and can be brought back, the last one first."
      isOpen
      onClose={onClose}
      size="wide"
    >
      <div className={styles.list}>
        {error ? (
          <ErrorPanel error={error} title="Dropped objects cannot be listed" onRetry={refetch} />
        ) : data ? (
          <DataTable
            label="Dropped objects"
            columns={columnsWith(setChosen)}
            records={data}
            keyOf={({ id }) => id}
            empty={<EmptyState title="Nothing can be brought back" />}
          />
        ) : (
          <Loading />
        )}
      </div>
    </Dialog>
  );
}

const columnsWith = (onChoose: (dropped: Dropped) => void): readonly Column<Dropped>[] => [
  { id: 'name', header: 'Name', value: ({ name }) => name, render: ({ name }) => <strong>{name}</strong> },
  { id: 'kind', header: 'Kind', value: ({ kind }) => kind },
  {
    id: 'dropped',
    header: 'Dropped',
    value: ({ droppedAt }) => droppedAt,
    render: ({ droppedAt, droppedBy }) => `${formatAgo(droppedAt)} by ${droppedBy}`,
  },
  {
    id: 'until',
    header: 'Gone',
    value: ({ undropUntil }) => undropUntil,
    render: ({ undropUntil }) => formatAgo(undropUntil),
  },
  {
    id: 'undrop',
    header: 'Action',
    value: () => null,
    render: (dropped) => (
      <Button size="small" onClick={() => onChoose(dropped)}>
        Undrop
      </Button>
    ),
  },
];

interface UndropOneProps {
  readonly dropped: Dropped;
  readonly parent: readonly string[];
  readonly onClose: () => void;
}

function UndropOne({ dropped: { kind, id, name }, parent, onClose }: UndropOneProps) {
  const [newName, setNewName] = useState(name);
  const openRoom = useOpenRoom();
  const body = { id, ...(newName === name ? {} : { newName }) };
  return (
    <CallDialog<unknown>
      title={`Undrop ${kind} ${name}`}
      description="It comes back with its data, its owner and what was granted on it."
      call={(api, options) => collectionIn(api, kind, parent).undrop(body, options)}
      submitLabel="Undrop"
      isComplete={newName !== ''}
      doneText={`${newName} is back`}
      onClose={onClose}
      onDone={() => {
        catalogChanged();
        openRoom('catalog', [...parent, newName], searchOf(kind));
      }}
    >
      <Field label="Name" description="Another one, if the old name is in use.">
        <TextInput value={newName} onChange={setNewName} autoFocus />
      </Field>
    </CallDialog>
  );
}
