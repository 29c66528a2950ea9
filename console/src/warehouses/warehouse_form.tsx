// The form of a new warehouse, and of the limits of one that exists.
import { useState } from 'react';
import { client } from '../app/session.ts';
import { useRecordAtOpening } from '../forms/record_at_opening.ts';
import { RecordDialog } from '../forms/record_dialog.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { changeOf, draftOf, limitsOf, type WarehouseDraft, type WarehouseRecord } from './warehouses.ts';
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

/** The engine whose servers form a cluster. */
const clusterEngine = 'clickhouse';
const placeChoices = [
  { value: 'server', label: 'In processes of this server (DuckDB)' },
  { value: 'cluster', label: 'On a cluster (ClickHouse)' },
] as const;

export function WarehouseForm({ warehouse: shown, onClose, onSaved }: WarehouseFormProps) {
  const warehouse = useRecordAtOpening(shown);
  const [draft, setDraft] = useState(() => draftOf(warehouse));
  const change = (next: Partial<WarehouseDraft>) => setDraft({ ...draft, ...next });
  const save = () =>
    warehouse
      ? client.warehouses(warehouse.name).update({ ...changeOf(draft, warehouse), expectedVersion: warehouse.version })
      : client.warehouses.create({
          name: draft.name,
          ...(draft.cluster ? { engine: clusterEngine, cluster: draft.cluster.name } : {}),
          ...changeOf(draft),
        });
  return (
    <RecordDialog
      title={warehouse ? `Change ${warehouse.name}` : 'New warehouse'}
      description={
        warehouse
          ? 'Memory, threads and temporary disk change when no statement runs.'
          : 'It starts with the first statement. Empty fields get the defaults of the server.'
      }
      isNew={!warehouse}
      isComplete={draft.name !== '' && (!draft.cluster || (draft.cluster.name !== '' && draft.cluster.user !== ''))}
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
        {!warehouse && (
          <Field label="Runs" description="The servers of a cluster are registered as backends afterwards.">
            <Select
              value={draft.cluster ? 'cluster' : 'server'}
              choices={placeChoices}
              onChange={(value) =>
                change({ cluster: value === 'cluster' ? { name: '', user: 'default', password: '' } : undefined })
              }
            />
          </Field>
        )}
        {draft.cluster ? (
          <ClusterFields
            cluster={draft.cluster}
            isNew={!warehouse}
            onChange={(changed) => change({ cluster: changed })}
          />
        ) : (
          <Field label="Starts again" description="After it was suspended for being idle.">
            <Select
              value={draft.autoResume ? 'yes' : 'no'}
              choices={resumeChoices}
              onChange={(value) => change({ autoResume: value === 'yes' })}
            />
          </Field>
        )}
        <LimitFields
          limits={limitsOf(draft)}
          values={draft.limits}
          isRequired={warehouse !== undefined}
          onChange={(changed) => change({ limits: changed })}
        />
      </div>
    </RecordDialog>
  );
}

type ClusterDraft = NonNullable<WarehouseDraft['cluster']>;

interface ClusterFieldsProps {
  readonly cluster: ClusterDraft;
  readonly isNew: boolean;
  readonly onChange: (cluster: ClusterDraft) => void;
}

function ClusterFields({ cluster, isNew, onChange }: ClusterFieldsProps) {
  const { name, user, password } = cluster;
  return (
    <>
      {isNew && (
        <Field label="Cluster" description="The name by which its servers know it.">
          <TextInput value={name} onChange={(value) => onChange({ ...cluster, name: value })} required />
        </Field>
      )}
      <Field label="User" description="As whom the server connects to them.">
        <TextInput value={user} onChange={(value) => onChange({ ...cluster, user: value })} required />
      </Field>
      <Field label="Password" description={isNew ? 'Stored encrypted.' : 'Empty: it is not changed.'}>
        <TextInput
          type="password"
          autoComplete="new-password"
          value={password}
          onChange={(value) => onChange({ ...cluster, password: value })}
        />
      </Field>
    </>
  );
}

interface LimitFieldsProps {
  readonly limits: ReturnType<typeof limitsOf>;
  readonly values: WarehouseDraft['limits'];
  readonly isRequired: boolean;
  readonly onChange: (values: WarehouseDraft['limits']) => void;
}

function LimitFields({ limits, values, isRequired, onChange }: LimitFieldsProps) {
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
