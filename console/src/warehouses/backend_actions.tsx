// What can be done with a backend: disable and enable it; of a cluster also register, decommission and remove servers.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { client } from '../app/session.ts';
import { RecordDialog } from '../forms/record_dialog.tsx';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import type { BackendRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

const drainSecondsDefault = 300;

interface BackendActionsProps {
  readonly warehouse: string;
  readonly backend: BackendRecord;
  /** Whether the warehouse is a cluster, whose servers come and go. */
  readonly isCluster: boolean;
}

export function BackendActions({ warehouse, backend, isCluster }: BackendActionsProps) {
  const queryClient = useQueryClient();
  const [isDraining, setIsDraining] = useState(false);
  const { backendId, state } = backend;
  const one = client.warehouses(warehouse).backends(backendId);
  const onSettled = () => queryClient.invalidateQueries({ queryKey: ['warehouses'] });
  const change = useMutation({
    mutationFn: async (make: () => PromiseLike<unknown>) => make(),
    onError: (error) => showFailure('The backend could not be changed', error),
    onSettled,
  });
  const button = (label: string, look: 'danger' | 'secondary', make: () => PromiseLike<unknown>) => (
    <Button size="small" look={look} disabled={change.isPending} onClick={() => change.mutate(make)}>
      {label}
    </Button>
  );
  return (
    <>
      {state === 'enabled' && button('Disable', 'danger', () => one.disable())}
      {(state === 'disabled' || state === 'decommissioned') && button('Enable', 'secondary', () => one.enable())}
      {state === 'decommissioning' && button('Cancel the decommission', 'secondary', () => one.cancelDecommission())}
      {isCluster && (state === 'enabled' || state === 'disabled') && (
        <Button size="small" onClick={() => setIsDraining(true)}>
          Decommission
        </Button>
      )}
      {isCluster && state === 'decommissioned' && button('Remove', 'danger', () => one.delete())}
      {isDraining && (
        <DecommissionDialog warehouse={warehouse} backend={backendId} onClose={() => setIsDraining(false)} />
      )}
    </>
  );
}

interface DecommissionDialogProps {
  readonly warehouse: string;
  readonly backend: string;
  readonly onClose: () => void;
}

function DecommissionDialog({ warehouse, backend, onClose }: DecommissionDialogProps) {
  const queryClient = useQueryClient();
  const [seconds, setSeconds] = useState(String(drainSecondsDefault));
  const drainSeconds = Number(seconds);
  const isComplete = seconds !== '' && Number.isInteger(drainSeconds) && drainSeconds >= 0;
  const decommission = useMutation({
    mutationFn: async () => client.warehouses(warehouse).backends(backend).decommission({ drainSeconds }),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ['warehouses'] });
      void queryClient.invalidateQueries({ queryKey: ['tasks'] });
      onClose();
    },
  });
  return (
    <Dialog
      title={`Decommission ${backend}?`}
      description="It receives no new statements. Its tables are dropped there when other backends have all of their rows; until then you can cancel."
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="danger" disabled={!isComplete || decommission.isPending} onClick={() => decommission.mutate()}>
            Decommission backend
          </Button>
        </>
      }
    >
      <Field label="Wait for running statements (s)" description="Then they are cancelled.">
        <TextInput type="number" min={0} step={1} value={seconds} onChange={setSeconds} />
      </Field>
      {decommission.error && <ErrorPanel error={decommission.error} title="It was not begun" />}
    </Dialog>
  );
}

interface BackendFormProps {
  readonly warehouse: string;
  readonly onClose: () => void;
}

/** Registers a server of the cluster. */
export function BackendForm({ warehouse, onClose }: BackendFormProps) {
  const [draft, setDraft] = useState({ name: '', location: '', zone: '' });
  const change = (next: Partial<typeof draft>) => setDraft({ ...draft, ...next });
  const { name, location, zone } = draft;
  return (
    <RecordDialog
      title="New backend"
      description="A server of the cluster. It is checked first, and receives the definitions of all tables before it takes statements."
      isNew
      isComplete={name !== '' && location !== ''}
      save={() => client.warehouses(warehouse).backends.create({ name, location, ...(zone === '' ? {} : { zone }) })}
      category="warehouses"
      failedTitle="The server was not registered"
      onClose={onClose}
      onSaved={undefined}
    >
      <div className={styles.fields}>
        <Field label="Name">
          <TextInput value={name} onChange={(value) => change({ name: value })} required autoFocus />
        </Field>
        <Field label="URL" description="Of its HTTP interface, such as https://node-1:8443.">
          <TextInput type="url" value={location} onChange={(value) => change({ location: value })} required />
        </Field>
        <Field label="Zone" description="Where it is, such as a rack or a region. Can be empty.">
          <TextInput value={zone} onChange={(value) => change({ zone: value })} />
        </Field>
      </div>
    </RecordDialog>
  );
}
