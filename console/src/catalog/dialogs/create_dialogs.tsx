// Forms that create catalogs, databases, tables and views.

import { Plus, X } from 'lucide-react';
import { useState } from 'react';
import { useOpenRoom } from '../../app/room_path.tsx';
import { CallDialog } from '../../forms/call_dialog.tsx';
import { Button, IconButton } from '../../ui/button.tsx';
import { Checkbox, Field, TextArea, TextInput } from '../../ui/field.tsx';
import { catalogChanged, searchOf } from '../object_ref.ts';
import styles from './create_dialogs.module.css';

interface CreateProps {
  readonly onClose: () => void;
}

interface CreateInProps extends CreateProps {
  /** The names of what will contain it. */
  readonly parent: readonly string[];
}

/** The name and the comment, which every form has; a comment that is left out is not sent. */
function useNamed() {
  const [name, setName] = useState('');
  const [comment, setComment] = useState('');
  const body = { name, ...(comment === '' ? {} : { comment }) };
  const nameField = (
    <Field label="Name">
      <TextInput value={name} onChange={setName} autoFocus />
    </Field>
  );
  const commentField = (
    <Field label="Comment">
      <TextInput value={comment} onChange={setComment} />
    </Field>
  );
  return { name, body, nameField, commentField };
}

function useCreated(parent: readonly string[], kind = '') {
  const openRoom = useOpenRoom();
  return (name: string): void => {
    catalogChanged();
    openRoom('catalog', [...parent, name], searchOf(kind));
  };
}

export function CreateCatalogDialog({ onClose }: CreateProps) {
  const { name, body, nameField, commentField } = useNamed();
  const [warehouse, setWarehouse] = useState('');
  const created = useCreated([]);
  const whole = { ...body, ...(warehouse === '' ? {} : { warehouse }) };
  return (
    <CallDialog
      title="Create catalog"
      call={(client, options) => client.catalogs.create(whole, options)}
      submitLabel="Create"
      isComplete={name !== ''}
      doneText={`Catalog ${name} created`}
      onClose={onClose}
      onDone={() => created(name)}
    >
      {nameField}
      <Field label="Warehouse" description="Which stores its data and runs its SQL. Empty: the default one.">
        <TextInput value={warehouse} onChange={setWarehouse} />
      </Field>
      {commentField}
    </CallDialog>
  );
}

export function CreateDatabaseDialog({ parent, onClose }: CreateInProps) {
  const { name, body, nameField, commentField } = useNamed();
  const [catalog = ''] = parent;
  const created = useCreated(parent);
  return (
    <CallDialog
      title={`Create database in ${catalog}`}
      call={(client, options) => client.catalogs(catalog).databases.create(body, options)}
      submitLabel="Create"
      isComplete={name !== ''}
      doneText={`Database ${name} created`}
      onClose={onClose}
      onDone={() => created(name)}
    >
      {nameField}
      {commentField}
    </CallDialog>
  );
}

interface NewColumn {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly isKey: boolean;
}

export function CreateTableDialog({ parent, onClose }: CreateInProps) {
  const { name, body, nameField, commentField } = useNamed();
  const [columns, setColumns] = useState<readonly NewColumn[]>([{ id: 0, name: '', type: 'BIGINT', isKey: false }]);
  const [catalog = '', database = ''] = parent;
  const created = useCreated(parent);
  const primaryKey = columns.filter(({ isKey }) => isKey).map((column) => column.name);
  const whole = {
    ...body,
    columns: columns.map((column) => ({ name: column.name, type: column.type })),
    ...(primaryKey.length > 0 ? { primaryKey } : {}),
  };
  return (
    <CallDialog
      title={`Create table in ${database}`}
      call={(client, options) => client.catalogs(catalog).databases(database).tables.create(whole, options)}
      submitLabel="Create"
      isComplete={name !== '' && columns.every((column) => column.name !== '' && column.type !== '')}
      doneText={`Table ${name} created`}
      onClose={onClose}
      onDone={() => created(name)}
    >
      {nameField}
      <ColumnEditor columns={columns} onChange={setColumns} />
      {commentField}
    </CallDialog>
  );
}

interface ColumnEditorProps {
  readonly columns: readonly NewColumn[];
  readonly onChange: (columns: readonly NewColumn[]) => void;
}

function ColumnEditor({ columns, onChange }: ColumnEditorProps) {
  const change = (id: number, changed: Partial<NewColumn>) =>
    onChange(columns.map((column) => (column.id === id ? { ...column, ...changed } : column)));
  const add = () => {
    const id = 1 + Math.max(...columns.map((column) => column.id));
    onChange([...columns, { id, name: '', type: 'STRING', isKey: false }]);
  };
  return (
    <fieldset className={styles.columns}>
      <legend>Columns</legend>
      {columns.map(({ id, name, type, isKey }, i) => (
        <div key={id} className={styles.column}>
          <TextInput
            aria-label={`Name of column ${i + 1}`}
            placeholder="Name"
            value={name}
            onChange={(next) => change(id, { name: next })}
          />
          <TextInput
            aria-label={`Type of column ${i + 1}`}
            placeholder="Type"
            value={type}
            onChange={(next) => change(id, { type: next })}
            isMonospace
          />
          <Checkbox label="Key" isChecked={isKey} onChange={(next) => change(id, { isKey: next })} />
          <IconButton
            label={`Remove column ${i + 1}`}
            disabled={columns.length === 1}
            onClick={() => onChange(columns.filter((column) => column.id !== id))}
          >
            <X aria-hidden />
          </IconButton>
        </div>
      ))}
      <div>
        <Button size="small" icon={<Plus aria-hidden />} onClick={add}>
          Add column
        </Button>
      </div>
    </fieldset>
  );
}

export function CreateViewDialog({ parent, onClose }: CreateInProps) {
  const { name, body, nameField, commentField } = useNamed();
  const [sql, setSql] = useState('');
  const [catalog = '', database = ''] = parent;
  const created = useCreated(parent, 'view');
  const whole = { ...body, sql };
  return (
    <CallDialog
      title={`Create view in ${database}`}
      call={(client, options) => client.catalogs(catalog).databases(database).views.create(whole, options)}
      submitLabel="Create"
      isComplete={name !== '' && sql.trim() !== ''}
      doneText={`View ${name} created`}
      onClose={onClose}
      onDone={() => created(name)}
    >
      {nameField}
      <Field label="Query" description={`Names without a database are looked up in ${database}.`}>
        <TextArea value={sql} onChange={setSql} rows={6} isMonospace />
      </Field>
      {commentField}
    </CallDialog>
  );
}
