// What can be done with a backend: disable and enable it; of a cluster also register, decommission and remove servers.
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Pencil } from 'lucide-react';
import { type ReactNode, useId, useState } from 'react';
import { client } from '../app/session.ts';
import { useRecordAtOpening } from '../forms/record_at_opening.ts';
import { RecordDialog } from '../forms/record_dialog.tsx';
import { Button, IconButton } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { formatCount } from '../ui/format.ts';
import { Confirmation } from '../ui/overlays/confirmation.tsx';
import { Dialog } from '../ui/overlays/dialog.tsx';
import { showFailure } from '../ui/overlays/toasts.tsx';
import type { BackendRecord, WarehouseRecord } from './warehouses.ts';
import styles from './warehouses_room.module.css';

const drainSecondsDefault = 300;
const drainSecondsMax = 86_400;

interface BackendActionsProps {
  readonly warehouse: WarehouseRecord;
  readonly backend: BackendRecord;
  /** Whether no other backend of its shard is available. */
  readonly isLast: boolean;
}

export function BackendActions({ warehouse, backend, isLast }: BackendActionsProps) {
  const queryClient = useQueryClient();
  const [open, setOpen] = useState<'disable' | 'decommission' | 'remove' | 'change'>();
  const close = () => setOpen(undefined);
  const { backendId, state } = backend;
  /** Its servers come and go. */
  const isCluster = warehouse.cluster !== null;
  const one = client.warehouses(warehouse.name).backends(backendId);
  const onSettled = () => queryClient.invalidateQueries({ queryKey: ['warehouses'] });
  const onError = (error: Error) => showFailure('The backend could not be changed', error);
  const enable = useMutation({ mutationFn: async () => one.enable(), onError, onSettled });
  const cancel = useMutation({ mutationFn: async () => one.cancelDecommission(), onError, onSettled });
  return (
    <>
      {state === 'enabled' && (
        <Button size="small" onClick={() => setOpen('disable')}>
          Disable
        </Button>
      )}
      {(state === 'disabled' || state === 'decommissioned') && (
        <Button size="small" disabled={enable.isPending} onClick={() => enable.mutate()}>
          Enable
        </Button>
      )}
      {state === 'decommissioning' && (
        <Button size="small" disabled={cancel.isPending} onClick={() => cancel.mutate()}>
          Cancel the decommission
        </Button>
      )}
      {isCluster && (state === 'enabled' || state === 'disabled') && (
        <Button size="small" onClick={() => setOpen('decommission')}>
          Decommission
        </Button>
      )}
      {isCluster && state === 'decommissioned' && (
        <Button size="small" onClick={() => setOpen('remove')}>
          Remove
        </Button>
      )}
      {isCluster && (
        <IconButton size="small" label={`Change ${backendId}`} onClick={() => setOpen('change')}>
          <Pencil aria-hidden />
        </IconButton>
      )}
      {open === 'disable' && <Disabling warehouse={warehouse} backend={backend} isLast={isLast} onClose={close} />}
      {open === 'remove' && <Removal warehouse={warehouse} backend={backend} onClose={close} />}
      {open === 'change' && <BackendForm warehouse={warehouse.name} backend={backend} onClose={close} />}
      {open === 'decommission' && <DecommissionDialog warehouse={warehouse.name} backend={backendId} onClose={close} />}
    </>
  );
}

interface DisablingProps extends BackendActionsProps {
  readonly onClose: () => void;
}

function Disabling({ warehouse, backend: { backendId }, isLast, onClose }: DisablingProps) {
  return (
    <BackendConfirmation
      title={`Disable ${backendId}?`}
      label="Disable backend"
      failedTitle="The backend was not disabled"
      call={() => client.warehouses(warehouse.name).backends(backendId).disable()}
      onClose={onClose}
    >
      <p>
        {isLast
          ? 'No other backend has its tablets available: statements that need them are refused until it is enabled again.'
          : 'It takes no statements until it is enabled again. Other replicas of its tablets are read meanwhile.'}
      </p>
      {warehouse.replicated === false && (
        <p>
          The servers do not replicate tables: writes and changes are refused until it is enabled again, or taken out of
          the cluster definition.
        </p>
      )}
    </BackendConfirmation>
  );
}

function Removal({ warehouse, backend: { backendId }, onClose }: Omit<DisablingProps, 'isLast'>) {
  return (
    <BackendConfirmation
      title={`Remove ${backendId}?`}
      label="Remove backend"
      failedTitle="The backend was not removed"
      call={() => client.warehouses(warehouse.name).backends(backendId).delete()}
      onClose={onClose}
    >
      <p>The warehouse no longer uses this server. It has no tables any more, and can be registered again.</p>
    </BackendConfirmation>
  );
}

interface BackendConfirmationProps {
  readonly title: string;
  readonly label: string;
  readonly failedTitle: string;
  readonly call: () => PromiseLike<unknown>;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** Asks before the call, and reads the warehouses again afterwards. */
function BackendConfirmation({ call, onClose, ...shown }: BackendConfirmationProps) {
  const queryClient = useQueryClient();
  const change = useMutation({
    mutationFn: async () => call(),
    onSuccess: onClose,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['warehouses'] }),
  });
  return (
    <Confirmation
      {...shown}
      isOpen
      isPending={change.isPending}
      error={change.error}
      onClose={onClose}
      onConfirm={() => change.mutate()}
    />
  );
}

interface DecommissionDialogProps {
  readonly warehouse: string;
  readonly backend: string;
  readonly onClose: () => void;
}

function DecommissionDialog({ warehouse, backend, onClose }: DecommissionDialogProps) {
  const queryClient = useQueryClient();
  const formId = useId();
  const [seconds, setSeconds] = useState(String(drainSecondsDefault));
  const drainSeconds = Number(seconds);
  const isValid =
    seconds !== '' && Number.isInteger(drainSeconds) && drainSeconds >= 0 && drainSeconds <= drainSecondsMax;
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
      description="It receives no new statements. Its tables are dropped there when other backends have all of their rows; until then you can cancel. If that takes longer than 24 hours, the decommission fails, and the backend stays disabled with its tables."
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={formId} look="danger" disabled={!isValid || decommission.isPending}>
            Decommission backend
          </Button>
        </>
      }
    >
      <form
        id={formId}
        onSubmit={(event) => {
          event.preventDefault();
          if (isValid && !decommission.isPending) decommission.mutate();
        }}
      >
        <Field
          label="Wait for running statements (s)"
          description="Then they are cancelled."
          error={isValid ? undefined : `Enter a whole number from 0 to ${formatCount(drainSecondsMax)}.`}
        >
          <TextInput type="number" min={0} max={drainSecondsMax} step={1} value={seconds} onChange={setSeconds} />
        </Field>
      </form>
      {decommission.error && <ErrorPanel error={decommission.error} title="The decommission was not begun" />}
    </Dialog>
  );
}

interface BackendFormProps {
  readonly warehouse: string;
  /** Undefined: a new one. */
  readonly backend?: BackendRecord;
  readonly onClose: () => void;
}

/** Registers a server of the cluster, or changes what is noted about one. */
export function BackendForm({ warehouse, backend: shown, onClose }: BackendFormProps) {
  const backend = useRecordAtOpening(shown);
  const [draft, setDraft] = useState({
    name: '',
    location: '',
    zone: backend?.zone ?? '',
    comment: backend?.comment ?? '',
  });
  const change = (next: Partial<typeof draft>) => setDraft({ ...draft, ...next });
  const { name, location } = draft;
  const zone = draft.zone === '' ? null : draft.zone;
  const comment = draft.comment === '' ? null : draft.comment;
  const { backends } = client.warehouses(warehouse);
  const save = () =>
    backend
      ? backends(backend.backendId).update({ zone, comment, expectedVersion: backend.version })
      : backends.create({ name, location, comment, ...(zone === null ? {} : { zone }) });
  return (
    <RecordDialog
      title={backend ? `Change ${backend.backendId}` : 'New backend'}
      description={
        backend
          ? undefined
          : 'A server of the cluster. It is checked first, and receives the definitions of all tables before it takes statements.'
      }
      isNew={!backend}
      isComplete={backend !== undefined || (name !== '' && location !== '')}
      save={save}
      category="warehouses"
      failedTitle={backend ? 'The backend was not changed' : 'The server was not registered'}
      onClose={onClose}
      onSaved={undefined}
    >
      <div className={styles.fields}>
        {!backend && (
          <>
            <Field label="Name">
              <TextInput value={name} onChange={(value) => change({ name: value })} required autoFocus />
            </Field>
            <Field label="URL" description="Of its HTTP interface, such as https://node-1:8443.">
              <TextInput type="url" value={location} onChange={(value) => change({ location: value })} required />
            </Field>
          </>
        )}
        <Field label="Zone" description="Where it is, such as a rack or a region. Can be empty.">
          <TextInput value={draft.zone} onChange={(value) => change({ zone: value })} />
        </Field>
        <Field label="Comment">
          <TextInput value={draft.comment} onChange={(value) => change({ comment: value })} />
        </Field>
      </div>
    </RecordDialog>
  );
}
