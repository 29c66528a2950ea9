// Forms that change, rename, clone and drop an object of any kind.
import { useState } from 'react';
import { useOpenRoom } from '../../app/room_path.tsx';
import { CallDialog } from '../../forms/call_dialog.tsx';
import { useRecordAtOpening } from '../../forms/record_at_opening.ts';
import { Checkbox, Field, TextArea, TextInput } from '../../ui/field.tsx';
import {
  catalogChanged,
  nameOf,
  type ObjectRecord,
  type ObjectRef,
  objectIn,
  searchOf,
  tableIn,
} from '../object_ref.ts';

interface DialogProps {
  readonly object: ObjectRef;
  readonly onClose: () => void;
}

export function EditDialog({ object, record: shown, onClose }: DialogProps & { readonly record: ObjectRecord }) {
  const record = useRecordAtOpening(shown);
  const [comment, setComment] = useState(record.comment ?? '');
  const [owner, setOwner] = useState(record.owner);
  const [properties, setProperties] = useState(textOf(record.properties));
  const patch = patchOf(record.properties, propertiesIn(properties));
  const body = {
    ...(comment === (record.comment ?? '') ? {} : { comment: comment === '' ? null : comment }),
    ...(owner === record.owner ? {} : { owner }),
    ...(Object.keys(patch).length === 0 ? {} : { properties: patch }),
  };
  return (
    <CallDialog<unknown>
      title={`Edit ${object.kind} ${record.name}`}
      call={(client, options) => objectIn(client, object).update({ ...body, expectedVersion: record.version }, options)}
      submitLabel="Save"
      isComplete={owner !== '' && Object.keys(body).length > 0}
      doneText="Saved"
      onClose={onClose}
      onDone={catalogChanged}
    >
      <Field label="Comment">
        <TextArea value={comment} onChange={setComment} rows={3} />
      </Field>
      <Field label="Owner" description="The owner has all privileges on it.">
        <TextInput value={owner} onChange={setOwner} />
      </Field>
      <Field label="Properties" description="One on each line: name=value">
        <TextArea value={properties} onChange={setProperties} rows={3} isMonospace />
      </Field>
    </CallDialog>
  );
}

type Properties = Readonly<Record<string, string>>;

const textOf = (properties: Properties): string =>
  Object.entries(properties)
    .map(([name, value]) => `${name}=${value}`)
    .join('\n');

function propertiesIn(text: string): Properties {
  const lines = text.split('\n').filter((line) => line.includes('='));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')).trim(), line.slice(line.indexOf('=') + 1)]),
  );
}

/** What differs; null removes a property. */
function patchOf(before: Properties, after: Properties): Readonly<Record<string, string | null>> {
  const removed = Object.keys(before).filter((name) => !(name in after));
  const changed = Object.entries(after).filter(([name, value]) => before[name] !== value);
  return Object.fromEntries([...removed.map((name) => [name, null]), ...changed]);
}

export function RenameDialog({ object, onClose }: DialogProps) {
  const [newName, setNewName] = useState(nameOf(object));
  const openRoom = useOpenRoom();
  return (
    <CallDialog<unknown>
      title={`Rename ${object.kind} ${nameOf(object)}`}
      description="Grants on it stay. SQL that names it, such as saved queries, does not follow."
      call={(client, options) => objectIn(client, object).rename({ newName }, options)}
      submitLabel="Rename"
      isComplete={newName !== '' && newName !== nameOf(object)}
      doneText={`Renamed to ${newName}`}
      onClose={onClose}
      onDone={() => {
        const path = [...object.path.slice(0, -1), newName];
        void openRoom('catalog', path, searchOf(object.kind), { replace: true }).then(catalogChanged);
      }}
    >
      <Field label="New name">
        <TextInput value={newName} onChange={setNewName} autoFocus />
      </Field>
    </CallDialog>
  );
}

export function CloneDialog({ object, onClose }: DialogProps) {
  const [ownCatalog = '', ownDatabase = ''] = object.path;
  const [newName, setNewName] = useState(`${nameOf(object)}_copy`);
  const [catalog, setCatalog] = useState(ownCatalog);
  const [database, setDatabase] = useState(ownDatabase);
  const [rows, setRows] = useState(true);
  const openRoom = useOpenRoom();
  const body = {
    newName,
    ...(catalog === ownCatalog ? {} : { catalog }),
    ...(database === ownDatabase ? {} : { database }),
    ...(rows ? {} : { rows }),
  };
  return (
    <CallDialog
      title={`Clone table ${nameOf(object)}`}
      description="A table with the same definition. It is visible when it is complete."
      call={(client, options) => tableIn(client, object.path).clone(body, options)}
      submitLabel="Clone"
      isComplete={newName !== '' && catalog !== '' && database !== ''}
      doneText={`${newName} created`}
      onClose={onClose}
      onDone={() => {
        catalogChanged();
        openRoom('catalog', [catalog, database, newName]);
      }}
    >
      <Field label="Name of the copy">
        <TextInput value={newName} onChange={setNewName} autoFocus />
      </Field>
      <Field label="Catalog">
        <TextInput value={catalog} onChange={setCatalog} />
      </Field>
      <Field label="Database">
        <TextInput value={database} onChange={setDatabase} />
      </Field>
      <Checkbox label="Copy the rows too" isChecked={rows} onChange={setRows} />
    </CallDialog>
  );
}

const lost = {
  catalog: 'all its databases, tables and views',
  database: 'all its tables and views',
  table: 'its definition and all its rows',
  view: 'its definition; the tables that it is made of stay',
} as const;

/** Says what is lost and asks for the name where it cannot be brought back. */
export function DropDialog({ object, onClose }: DialogProps) {
  const { kind } = object;
  const name = nameOf(object);
  const hasContents = kind === 'catalog' || kind === 'database';
  const [cascade, setCascade] = useState(false);
  const [purge, setPurge] = useState(false);
  const [typed, setTyped] = useState('');
  const openRoom = useOpenRoom();
  const query = { ...(hasContents && cascade ? { cascade } : {}), ...(purge ? { purge } : {}) };
  const whatIsLost = hasContents && !cascade ? 'nothing else, because only an empty one is dropped' : lost[kind];
  return (
    <CallDialog
      title={`Drop ${kind} ${name}?`}
      description={
        purge
          ? `Lost for good: ${whatIsLost}.`
          : `Dropped: ${whatIsLost}. Undrop brings it back with its grants, until the time of the setting undropSeconds is over.`
      }
      call={(client, options) =>
        objectIn(client, object).delete(Object.keys(query).length > 0 ? query : undefined, options)
      }
      submitLabel={`Drop ${kind}`}
      isDangerous
      isComplete={!purge || typed === name}
      doneText={`${name} dropped`}
      onClose={onClose}
      onDone={() => {
        void openRoom('catalog', object.path.slice(0, -1), {}, { replace: true }).then(catalogChanged);
      }}
    >
      {hasContents && <Checkbox label="Drop what is in it too" isChecked={cascade} onChange={setCascade} />}
      <Checkbox label="Delete it for good, without undrop" isChecked={purge} onChange={setPurge} />
      {purge && (
        <Field label={`Type ${name} to confirm`}>
          <TextInput value={typed} onChange={setTyped} />
        </Field>
      )}
    </CallDialog>
  );
}
