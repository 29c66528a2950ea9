// The form of a new warehouse, and of the limits of one that exists.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { client } from '../app/session.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
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
  const formId = useId();
  const queryClient = useQueryClient();
  const save = useMutation({
    mutationFn: () =>
      warehouse
        ? client
            .warehouses(warehouse.name)
            .update({ ...changeOf(draft, warehouse), expectedVersion: warehouse.version })
        : client.warehouses.create({ name: draft.name, ...changeOf(draft) }),
    onSuccess: (saved) => {
      void queryClient.invalidateQueries({ queryKey: ['warehouses'] });
      onClose();
      onSaved?.(saved);
    },
  });
  return (
    <Dialog
      title={warehouse ? `Change ${warehouse.name}` : 'New warehouse'}
      description={
        warehouse
          ? 'Changes of memory, threads and temporary disk take effect when no statement is running.'
          : 'It starts with the first statement. Empty fields get the defaults of the server.'
      }
      isOpen
      onClose={onClose}
      size="wide"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" form={formId} disabled={draft.name === '' || save.isPending}>
            {warehouse ? 'Save' : 'Create'}
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className={styles.form}
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
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
        {save.error && <ErrorPanel error={save.error} title="The warehouse was not saved" />}
      </form>
    </Dialog>
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
