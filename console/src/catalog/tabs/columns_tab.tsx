// The columns of a table, each of which can be changed, renamed and dropped; those of a view, which follow from its query.
import { KeyRound, MoreHorizontal, Plus } from 'lucide-react';
import { useMemo, useState } from 'react';
import { Button, IconButton } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data/data_table.tsx';
import { Toolbar } from '../../ui/layout/page.tsx';
import { Menu } from '../../ui/overlays/menu.tsx';
import { AddColumnDialog, DropColumnDialog, EditColumnDialog, RenameColumnDialog } from '../dialogs/column_dialogs.tsx';
import type { TableColumn, TableRecord } from '../object_ref.ts';
import styles from './columns_tab.module.css';

interface ColumnsTabProps {
  readonly path: readonly string[];
  readonly record: TableRecord;
}

type Change = 'edit' | 'rename' | 'drop';

export function ColumnsTab({ path, record }: ColumnsTabProps) {
  const [isAdding, setIsAdding] = useState(false);
  const [change, setChange] = useState<{ readonly kind: Change; readonly column: TableColumn }>();
  const close = () => setChange(undefined);
  const columns = useMemo(() => tableColumns((kind, column) => setChange({ kind, column })), []);
  return (
    <>
      <Toolbar>
        <Button icon={<Plus aria-hidden />} onClick={() => setIsAdding(true)}>
          Add column
        </Button>
      </Toolbar>
      <DataTable label="Columns" columns={columns} records={record.columns} keyOf={({ name }) => name} />
      {isAdding && <AddColumnDialog path={path} onClose={() => setIsAdding(false)} />}
      {change?.kind === 'edit' && <EditColumnDialog path={path} column={change.column} onClose={close} />}
      {change?.kind === 'rename' && <RenameColumnDialog path={path} column={change.column} onClose={close} />}
      {change?.kind === 'drop' && <DropColumnDialog path={path} column={change.column} onClose={close} />}
    </>
  );
}

const tableColumns = (onChange: (kind: Change, column: TableColumn) => void): readonly Column<TableColumn>[] => [
  { id: 'position', header: '#', value: ({ position }) => position, isNumber: true, width: '48px' },
  {
    id: 'name',
    header: 'Name',
    value: ({ name }) => name,
    render: ({ name, isKey }) => (
      <span className={styles.name}>
        <strong>{name}</strong>
        {isKey && <KeyRound role="img" aria-label="Part of the primary key" />}
      </span>
    ),
  },
  { id: 'type', header: 'Type', value: ({ type }) => type, render: ({ type }) => <code>{type}</code> },
  { id: 'nullable', header: 'Nulls', value: ({ nullable }) => (nullable ? 'allowed' : 'not allowed') },
  {
    id: 'default',
    header: 'Default',
    value: ({ defaultValue }) => defaultValue,
    render: ({ defaultValue }) => (defaultValue === null ? '–' : <code>{defaultValue}</code>),
  },
  { id: 'comment', header: 'Comment', value: ({ comment }) => comment },
  {
    id: 'actions',
    header: 'Actions',
    value: () => null,
    width: '72px',
    render: (column) => (
      <Menu
        align="end"
        trigger={
          <IconButton size="small" label={`Actions for ${column.name}`}>
            <MoreHorizontal aria-hidden />
          </IconButton>
        }
        items={[
          { label: 'Edit…', onSelect: () => onChange('edit', column) },
          { label: 'Rename…', onSelect: () => onChange('rename', column) },
          'separator',
          { label: 'Drop…', isDangerous: true, onSelect: () => onChange('drop', column) },
        ]}
      />
    ),
  },
];

interface ViewColumn {
  readonly name: string;
  readonly position: number;
  readonly type: string;
}

const viewColumns: readonly Column<ViewColumn>[] = [
  { id: 'position', header: '#', value: ({ position }) => position, isNumber: true, width: '48px' },
  { id: 'name', header: 'Name', value: ({ name }) => name, render: ({ name }) => <strong>{name}</strong> },
  { id: 'type', header: 'Type', value: ({ type }) => type, render: ({ type }) => <code>{type}</code> },
];

export const ViewColumnsTab = ({ columns }: { readonly columns: readonly ViewColumn[] }) => (
  <DataTable label="Columns" columns={viewColumns} records={columns} keyOf={({ name }) => name} />
);
