// Forms that add, change, rename and drop a column of a table.
import { useState } from 'react';
import { CallDialog } from '../../forms/call_dialog.tsx';
import { Checkbox, Field, TextInput } from '../../ui/field.tsx';
import { catalogChanged, type TableColumn, tableIn } from '../object_ref.ts';

interface AddColumnProps {
  readonly path: readonly string[];
  readonly onClose: () => void;
}

interface ColumnProps extends AddColumnProps {
  readonly column: TableColumn;
}

const typeHint = 'Such as BIGINT, DECIMAL(18,2), STRING, DATETIME, ARRAY<STRING>.';
const defaultHint = "A SQL expression, such as 0, 'new' or current_timestamp. Empty: none.";

export function AddColumnDialog({ path, onClose }: AddColumnProps) {
  const [name, setName] = useState('');
  const [type, setType] = useState('');
  const [nullable, setNullable] = useState(true);
  const [defaultValue, setDefaultValue] = useState('');
  const [comment, setComment] = useState('');
  const body = {
    name,
    type,
    ...(nullable ? {} : { nullable }),
    ...(defaultValue === '' ? {} : { defaultValue }),
    ...(comment === '' ? {} : { comment }),
  };
  return (
    <CallDialog
      title="Add column"
      call={(client, options) => tableIn(client, path).columns.create(body, options)}
      submitLabel="Add column"
      isComplete={name !== '' && type !== ''}
      doneText="Column added"
      onClose={onClose}
      onDone={catalogChanged}
    >
      <Field label="Name">
        <TextInput value={name} onChange={setName} autoFocus />
      </Field>
      <Field label="Type" description={typeHint}>
        <TextInput value={type} onChange={setType} isMonospace />
      </Field>
      <Field label="Default" description={defaultHint}>
        <TextInput value={defaultValue} onChange={setDefaultValue} isMonospace />
      </Field>
      <Field label="Comment">
        <TextInput value={comment} onChange={setComment} />
      </Field>
      <Checkbox label="Nulls are allowed" isChecked={nullable} onChange={setNullable} />
    </CallDialog>
  );
}

export function EditColumnDialog({ path, column, onClose }: ColumnProps) {
  const [type, setType] = useState(column.type);
  const [nullable, setNullable] = useState(column.nullable);
  const [defaultValue, setDefaultValue] = useState(column.defaultValue ?? '');
  const [comment, setComment] = useState(column.comment ?? '');
  const body = {
    ...(type === column.type ? {} : { type }),
    ...(nullable === column.nullable ? {} : { nullable }),
    ...(defaultValue === (column.defaultValue ?? '')
      ? {}
      : { defaultValue: defaultValue === '' ? null : defaultValue }),
    ...(comment === (column.comment ?? '') ? {} : { comment: comment === '' ? null : comment }),
  };
  return (
    <CallDialog
      title={`Edit column ${column.name}`}
      call={(client, options) => tableIn(client, path).columns(column.name).update(body, options)}
      submitLabel="Save"
      isComplete={type !== '' && Object.keys(body).length > 0}
      doneText="Column changed"
      onClose={onClose}
      onDone={catalogChanged}
    >
      <Field label="Comment">
        <TextInput value={comment} onChange={setComment} autoFocus />
      </Field>
      <Field
        label="Type"
        description="A type that holds every value of the old one. The rows of a large table are rewritten by a task."
      >
        <TextInput value={type} onChange={setType} isMonospace />
      </Field>
      <Field label="Default" description={defaultHint}>
        <TextInput value={defaultValue} onChange={setDefaultValue} isMonospace />
      </Field>
      <Checkbox label="Nulls are allowed" isChecked={nullable} onChange={setNullable} />
    </CallDialog>
  );
}

export function RenameColumnDialog({ path, column, onClose }: ColumnProps) {
  const [newName, setNewName] = useState(column.name);
  return (
    <CallDialog
      title={`Rename column ${column.name}`}
      description="Keys and orders that name the column follow. Saved queries do not."
      call={(client, options) => tableIn(client, path).columns(column.name).rename({ newName }, options)}
      submitLabel="Rename"
      isComplete={newName !== '' && newName !== column.name}
      doneText="Column renamed"
      onClose={onClose}
      onDone={catalogChanged}
    >
      <Field label="New name">
        <TextInput value={newName} onChange={setNewName} autoFocus />
      </Field>
    </CallDialog>
  );
}

export function DropColumnDialog({ path, column, onClose }: ColumnProps) {
  return (
    <CallDialog
      title={`Drop column ${column.name}?`}
      description="Its values in all rows are deleted. This cannot be undone."
      call={(client, options) => tableIn(client, path).columns(column.name).delete(options)}
      submitLabel="Drop column"
      isDangerous
      doneText="Column dropped"
      onClose={onClose}
      onDone={catalogChanged}
    />
  );
}
