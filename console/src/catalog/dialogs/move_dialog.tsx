// Moves a catalog to another warehouse: a dry run shows what would not carry over, how much is copied and how long it takes; then the move
// is a task, which continues when the dialog is closed.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import type { MoveConsent, MoveProblemKind } from '../../../../src/api/namespaces/move_result.ts';
import { Task, type TaskRecord } from '../../../../src/client/index.ts';
import { useOpenRoom } from '../../app/room_path.tsx';
import { client } from '../../app/session.ts';
import { Button } from '../../ui/button.tsx';
import { Facts } from '../../ui/data/facts.tsx';
import { ErrorPanel } from '../../ui/error_panel.tsx';
import { Progress } from '../../ui/feedback.tsx';
import { Checkbox, Field } from '../../ui/field.tsx';
import { formatBytes, formatCount, formatDuration } from '../../ui/format.ts';
import { Dialog } from '../../ui/overlays/dialog.tsx';
import { Select } from '../../ui/overlays/select.tsx';
import styles from './move_dialog.module.css';

interface MoveDialogProps {
  readonly catalog: string;
  /** The warehouse that has the catalog. */
  readonly from: string;
  readonly onClose: () => void;
}

const move = (catalog: string, body: Parameters<ReturnType<typeof client.catalogs>['move']>[0]) =>
  client.catalogs(catalog).move(body);
type Report = Awaited<ReturnType<ReturnType<typeof move>['done']>>;
type Problem = Report['problems'][number];
type Consents = Readonly<Partial<Record<MoveConsent, boolean>>>;

const consentLabels: Readonly<Record<MoveConsent, string>> = {
  dropUnsupportedViews: 'Drop the views that the warehouse cannot create',
  dropUnenforcedKeys: 'Give up the keys that the warehouse does not enforce',
  forgetDroppedObjects: 'Give up restoring dropped objects',
};
const consentNames = Object.keys(consentLabels) as MoveConsent[];

const remains = ({ blocks, consent }: Problem, consents: Consents): boolean =>
  blocks && (consent === null || consents[consent] !== true);

const kindLabels: Readonly<Record<MoveProblemKind, string>> = {
  view: 'View',
  dependentView: 'View in another catalog',
  keys: 'Keys of',
  definition: 'Definition of',
  values: 'Values of',
  droppedObjects: 'Dropped objects',
  schedule: 'Schedule',
};

function problemTitle({ kind, database, name }: Problem): string {
  const path = [database, name].filter((part) => part !== null).join('.');
  return path === '' ? kindLabels[kind] : `${kindLabels[kind]} ${path}`;
}

function countText(count: number, blocking: number): string {
  const found = count === 1 ? '1 thing does not carry over' : `${formatCount(count)} things do not carry over`;
  if (blocking <= 1) return `${found}; ${blocking === 0 ? 'none of them' : 'one'} prevents the move.`;
  return `${found}; ${blocking === count ? 'all' : formatCount(blocking)} of them prevent the move.`;
}

/** The dry run. Its task is cancelled with it, because nobody would see its report. */
function useCheck(catalog: string) {
  const [progress, setProgress] = useState<TaskRecord>();
  const running = useRef<{ task?: Task; isCancelled?: boolean }>({});
  const check = useMutation({
    mutationFn: async (warehouse: string) => {
      setProgress(undefined);
      const answer = await move(catalog, { warehouse, dryRun: true });
      if (!(answer instanceof Task)) throw new Error('the server did not start a task');
      running.current.task = answer;
      if (running.current.isCancelled) await answer.cancel();
      return answer.done({ onProgress: setProgress });
    },
  });
  const cancel = () => {
    running.current.isCancelled = true;
    // One that has ended stays as it is.
    if (check.isPending) void running.current.task?.cancel().catch(() => undefined);
  };
  return { check, progress, cancel };
}

export function MoveDialog({ catalog, from, onClose }: MoveDialogProps) {
  const [target, setTarget] = useState('');
  const [consents, setConsents] = useState<Consents>({});
  const { check, progress, cancel } = useCheck(catalog);
  const openRoom = useOpenRoom();
  const queryClient = useQueryClient();
  const close = () => {
    cancel();
    onClose();
  };
  const begin = useMutation({
    mutationFn: async () => {
      const answer = await move(catalog, { warehouse: target, ...consents });
      return answer instanceof Task ? answer.taskId : undefined;
    },
    onSuccess: (taskId) => {
      // The page of the catalog reads its state again when it is opened again.
      void queryClient.invalidateQueries({ queryKey: ['catalogs'], refetchType: 'none' });
      onClose();
      if (taskId !== undefined) void openRoom('tasks', [taskId]);
    },
  });
  const choose = (warehouse: string) => {
    setTarget(warehouse);
    setConsents({});
    check.reset();
    begin.reset();
  };
  const report = check.data;
  const isReady = report !== undefined && !report.problems.some((problem) => remains(problem, consents));
  return (
    <Dialog
      title={`Move catalog ${catalog}`}
      description={`Its data is copied from the warehouse ${from} while it stays readable and writable, but for a short pause of writes at the end. Both engines prove each table before the catalog is switched. The old copy is deleted a day later.`}
      isOpen
      onClose={close}
      size="wide"
      actions={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button
            look={report ? 'secondary' : 'primary'}
            disabled={target === '' || check.isPending}
            onClick={() => check.mutate(target)}
          >
            {report ? 'Check again' : 'Check'}
          </Button>
          <Button look="primary" disabled={!isReady || begin.isPending} onClick={() => begin.mutate()}>
            Move
          </Button>
        </>
      }
    >
      <div className={styles.content}>
        <TargetField from={from} value={target} isDisabled={check.isPending} onChange={choose} />
        {check.isPending && (
          <>
            <Progress label="Checking what carries over" value={progress?.progress ?? null} />
            <p>{progress?.progressText || 'Checking what carries over…'}</p>
          </>
        )}
        {check.error && <ErrorPanel error={check.error} title="It could not be checked" />}
        {report && <MoveReport report={report} consents={consents} onConsent={setConsents} />}
        {begin.error && <ErrorPanel error={begin.error} title="The move was not begun" />}
      </div>
    </Dialog>
  );
}

interface TargetFieldProps {
  readonly from: string;
  readonly value: string;
  readonly isDisabled: boolean;
  readonly onChange: (warehouse: string) => void;
}

function TargetField({ from, value, isDisabled, onChange }: TargetFieldProps) {
  const { data, error } = useQuery({
    queryKey: ['warehouses', 'list'],
    queryFn: ({ signal }) => client.warehouses.list({ pageSize: 200 }, { signal }).all(),
  });
  const others = (data ?? [])
    .filter(({ name }) => name !== from)
    .map(({ name, engine }) => ({ value: name, label: `${name} (${engine})` }));
  const none = data ? 'There is no other warehouse' : 'Reading the warehouses…';
  const first = { value: '', label: others.length === 0 ? none : 'Choose…' };
  return (
    <>
      <Field label="To the warehouse">
        <Select value={value} choices={[first, ...others]} isDisabled={isDisabled} onChange={onChange} />
      </Field>
      {error && <ErrorPanel error={error} title="The warehouses could not be listed" />}
    </>
  );
}

interface MoveReportProps {
  readonly report: Report;
  readonly consents: Consents;
  readonly onConsent: (consents: Consents) => void;
}

function MoveReport({ report, consents, onConsent }: MoveReportProps) {
  const { databases, tables, views, rows, bytes, estimatedSeconds, problems } = report;
  const blocking = problems.filter((problem) => remains(problem, consents)).length;
  const asked = consentNames.filter((name) => problems.some(({ consent, blocks }) => blocks && consent === name));
  return (
    <section className={styles.content} aria-label="What would be moved">
      <Facts
        facts={[
          { label: 'Databases', value: formatCount(databases) },
          { label: 'Tables', value: formatCount(tables) },
          { label: 'Views', value: formatCount(views) },
          { label: 'Rows', value: formatCount(rows) },
          { label: 'Size', value: formatBytes(bytes) },
          { label: 'Takes about', value: estimatedSeconds === null ? null : formatDuration(estimatedSeconds * 1000) },
        ]}
      />
      {problems.length === 0 ? (
        <p>Everything carries over.</p>
      ) : (
        <>
          <p>{countText(problems.length, blocking)}</p>
          <ul className={styles.problems}>
            {problems.map((problem) => (
              <li
                key={`${problem.kind} ${problem.database} ${problem.name} ${problem.reason}`}
                data-blocks={remains(problem, consents)}
              >
                <strong>{problemTitle(problem)}</strong>
                {`: ${problem.reason}`}
                {remains(problem, consents) && <span className={styles.blocks}> Prevents the move</span>}
              </li>
            ))}
          </ul>
        </>
      )}
      {asked.map((name) => (
        <Checkbox
          key={name}
          label={consentLabels[name]}
          isChecked={consents[name] === true}
          onChange={(isChecked) => onConsent({ ...consents, [name]: isChecked })}
        />
      ))}
    </section>
  );
}
