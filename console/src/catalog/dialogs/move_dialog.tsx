// Moves a catalog to another warehouse: a dry run shows what would not carry over, how much is copied and how long it takes; then the move
// is a task, which continues when the dialog is closed.
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { MoveConsent } from '../../../../src/api/namespaces/move_result.ts';
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

export function MoveDialog({ catalog, from, onClose }: MoveDialogProps) {
  const [target, setTarget] = useState('');
  const [consents, setConsents] = useState<Consents>({});
  const [task, setTask] = useState<TaskRecord>();
  const openRoom = useOpenRoom();
  const check = useMutation({
    mutationFn: async (warehouse: string) => move(catalog, { warehouse, dryRun: true }).done({ onProgress: setTask }),
  });
  const begin = useMutation({
    mutationFn: async () => {
      const answer = await move(catalog, { warehouse: target, ...consents });
      return answer instanceof Task ? answer.taskId : undefined;
    },
    onSuccess: (taskId) => {
      onClose();
      if (taskId !== undefined) void openRoom('tasks', [taskId]);
    },
  });
  const choose = (warehouse: string) => {
    setTarget(warehouse);
    setConsents({});
    setTask(undefined);
    check.reset();
    begin.reset();
  };
  const report = check.data;
  const isReady = report !== undefined && !report.problems.some((problem) => remains(problem, consents));
  return (
    <Dialog
      title={`Move catalog ${catalog}`}
      description={`Its data is copied from the warehouse ${from} while it stays readable and writable, but for a short pause of writes at the end. Both engines prove each table before the catalog is switched.`}
      isOpen
      onClose={onClose}
      size="wide"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
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
        <TargetField from={from} value={target} onChange={choose} />
        {check.isPending && (
          <>
            <Progress label="Checking what carries over" value={task?.progress ?? null} />
            <p>{task?.progressText || 'Checking what carries over…'}</p>
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
  readonly onChange: (warehouse: string) => void;
}

function TargetField({ from, value, onChange }: TargetFieldProps) {
  const { data = [], error } = useQuery({
    queryKey: ['warehouses', 'list'],
    queryFn: ({ signal }) => client.warehouses.list({ pageSize: 200 }, { signal }).all(),
  });
  const others = data
    .filter(({ name }) => name !== from)
    .map(({ name, engine }) => ({ value: name, label: `${name} (${engine})` }));
  const first = { value: '', label: others.length === 0 ? 'There is no other warehouse' : 'Choose…' };
  return (
    <>
      <Field label="To the warehouse">
        <Select value={value} choices={[first, ...others]} onChange={onChange} />
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
        <ul className={styles.problems}>
          {problems.map((problem) => (
            <li key={`${problem.kind} ${problem.database} ${problem.name}`} data-blocks={remains(problem, consents)}>
              <strong>
                {[problem.database, problem.name].filter((name) => name !== null).join('.') || problem.kind}
              </strong>
              {`: ${problem.reason}`}
            </li>
          ))}
        </ul>
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
