// The form of a new warehouse, and of the limits of one that exists.
import { useState } from 'react';
import { client } from '../app/session.ts';
import { RecordDialog } from '../forms/record_dialog.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { changeOf, draftOf, limits, type WarehouseDraft, type WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

interface WarehouseFormProps {
  /** Undefined: a new one. */
  readonly warehouse?: WarehouseRecord | undefined;
  readonly onClose: () => void;
  readonly onSaved?: (warehouse: WarehouseRecord) => void;
}

const resumeChoices = [
  { value: 'yes', label: 'With the next statement' },
  { value: 'no', label: 'Only when it is resumed' },
] as const;

export function WarehouseForm({ warehouse, onClose, onSaved }: WarehouseFormProps) {
  const [draft, setDraft] = useState(() => draftOf(warehouse));
  const change = (next: Partial<WarehouseDraft>) => setDraft({ ...draft, ...next });
  const save = () =>
    warehouse
      ? client.warehouses(warehouse.name).update({ ...changeOf(draft, warehouse), expectedVersion: warehouse.version })
      : client.warehouses.create({ name: draft.name, ...changeOf(draft) });
  return (
    <RecordDialog
      title={warehouse ? `Change ${warehouse.name}` : 'New warehouse'}
      description={
        warehouse
          ? 'Memory, threads and temporary disk change when no statement runs.'
          : 'It starts with the first statement. Empty fields get the defaults of the server.'
      }
      isNew={!warehouse}
      isComplete={draft.name !== ''}
      save={save}
      category="warehouses"
      failedTitle="The warehouse was not saved"
      onClose={onClose}
      onSaved={onSaved}
    >
      <div className={styles.fields}>
        {!warehouse && (
          <Field label="Name">
            <TextInput value={draft.name} onChange={(name) => change({ name })} required autoFocus />
          </Field>
        )}
        <Field label="Comment">
          <TextInput value={draft.comment} onChange={(comment) => change({ comment })} />
        </Field>
        <Field label="Starts again" description="After it was suspended for being idle.">
          <Select
            value={draft.autoResume ? 'yes' : 'no'}
            choices={resumeChoices}
            onChange={(value) => change({ autoResume: value === 'yes' })}
          />
        </Field>
        <LimitFields
          values={draft.limits}
          isRequired={warehouse !== undefined}
          onChange={(changed) => change({ limits: changed })}
        />
      </div>
    </RecordDialog>
  );
}

interface LimitFieldsProps {
  readonly values: WarehouseDraft['limits'];
  readonly isRequired: boolean;
  readonly onChange: (values: WarehouseDraft['limits']) => void;
}

function LimitFields({ values, isRequired, onChange }: LimitFieldsProps) {
  return limits.map(({ field, label, description }) => (
    <Field key={field} label={label} description={description}>
      <TextInput
        type="number"
        min={0}
        step="any"
        required={isRequired}
        placeholder="Default"
        value={values[field] ?? ''}
        onChange={(value) => onChange({ ...values, [field]: value })}
      />
    </Field>
  ));
}
