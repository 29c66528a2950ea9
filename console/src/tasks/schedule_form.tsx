// The form of a new schedule, and of one that is changed; the next times are shown while the expression is written.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { scheduledActions } from '../../../src/api/tasks/scheduled_actions.ts';
import { browsedDatabases } from '../app/browsed_databases.ts';
import { client } from '../app/session.ts';
import { useRecordAtOpening } from '../forms/record_at_opening.ts';
import { RecordDialog } from '../forms/record_dialog.tsx';
import { Field, SuggestedInput, TextArea, TextInput } from '../ui/field.tsx';
import { Select } from '../ui/overlays/select.tsx';
import { RunTimes } from './run_times.tsx';
import { nextTimes, presets } from './schedule_times.ts';
import {
  bodyFault,
  changeOf,
  creationOf,
  draftOf,
  newDraft,
  type ScheduleDraft,
  type ScheduleRecord,
} from './schedules.ts';
import styles from './tasks_room.module.css';

interface ScheduleFormProps {
  /** Undefined: a new one. */
  readonly schedule?: ScheduleRecord;
  readonly onClose: () => void;
  readonly onSaved?: (schedule: ScheduleRecord) => void;
}

const kinds = [
  { value: 'query', label: 'SQL statement' },
  { value: 'request', label: 'Action of the API' },
] as const;
const actions = scheduledActions.map((value) => ({ value, label: value.replaceAll('_', ' ') }));
const missedChoices = [
  { value: 'once', label: 'Run once for all missed times' },
  { value: 'skip', label: 'Skip missed times' },
  { value: 'all', label: 'Run for each missed time' },
] as const;
const priorityChoices = [
  { value: 'high', label: 'High' },
  { value: 'normal', label: 'Normal' },
  { value: 'low', label: 'Low' },
] as const;

export function ScheduleForm({ schedule: shown, onClose, onSaved }: ScheduleFormProps) {
  const schedule = useRecordAtOpening(shown);
  const [draft, setDraft] = useState(() => (schedule ? draftOf(schedule) : newDraft()));
  const change = (next: Partial<ScheduleDraft>) => setDraft({ ...draft, ...next });
  const save = () =>
    schedule
      ? client.schedules(schedule.name).update({ ...changeOf(draft, schedule), expectedVersion: schedule.version })
      : client.schedules.create({ name: draft.name, ...creationOf(draft) });
  const next = useMemo(() => nextTimes(draft.cron, draft.timeZone), [draft.cron, draft.timeZone]);
  const isComplete =
    draft.name !== '' && (draft.kind === 'query' ? draft.sql.trim() !== '' : draft.on !== '') && !bodyFault(draft);
  return (
    <RecordDialog
      title={schedule ? `Change ${schedule.name}` : 'New schedule'}
      isNew={!schedule}
      isComplete={isComplete && (next.times?.length ?? 0) > 0}
      save={save}
      category="schedules"
      failedTitle="The schedule was not saved"
      onClose={onClose}
      onSaved={onSaved}
    >
      {!schedule && (
        <div className={styles.pair}>
          <Field label="Name">
            <TextInput value={draft.name} onChange={(name) => change({ name })} required autoFocus />
          </Field>
          <Field label="What it does">
            <Select value={draft.kind} choices={kinds} onChange={(kind) => change({ kind })} />
          </Field>
        </div>
      )}
      {draft.kind === 'query' ? (
        <StatementFields draft={draft} onChange={change} />
      ) : (
        <RequestFields draft={draft} onChange={change} />
      )}
      <TimeFields draft={draft} onChange={change} />
      <RunTimes next={next} timeZone={draft.timeZone} />
      <RunFields draft={draft} onChange={change} />
    </RecordDialog>
  );
}

interface FieldsProps {
  readonly draft: ScheduleDraft;
  readonly onChange: (change: Partial<ScheduleDraft>) => void;
}

/** Names that the user may see. Without any, the fields take what is written. */
function useNames({ catalog }: ScheduleDraft) {
  const { data: places = [] } = useQuery({
    queryKey: ['databases', 'browsed'],
    queryFn: ({ signal }) => browsedDatabases(signal),
  });
  const { data: warehouses = [] } = useQuery({
    queryKey: ['warehouses', 'list'],
    queryFn: ({ signal }) => client.warehouses.list({ pageSize: 200 }, { signal }).all(),
  });
  return {
    catalogs: places.map((place) => place.catalog),
    databases: places.find((place) => place.catalog === catalog)?.databases ?? [],
    warehouses: warehouses.map(({ name }) => name),
  };
}

function StatementFields({ draft, onChange }: FieldsProps) {
  const { catalogs, databases, warehouses } = useNames(draft);
  return (
    <>
      <Field label="Statement" description="One statement: SELECT, INSERT, UPDATE, DELETE or MERGE.">
        <TextArea isMonospace rows={5} value={draft.sql} onChange={(sql) => onChange({ sql })} required />
      </Field>
      <div className={styles.triple}>
        <Field label="Catalog">
          <SuggestedInput
            value={draft.catalog}
            suggestions={catalogs}
            onChange={(catalog) => onChange({ catalog })}
            required
          />
        </Field>
        <Field label="Database" description="For table names without a database.">
          <SuggestedInput
            value={draft.database}
            suggestions={databases}
            onChange={(database) => onChange({ database })}
          />
        </Field>
        <Field label="Warehouse" description="By default that of the catalog.">
          <SuggestedInput
            value={draft.warehouse}
            suggestions={warehouses}
            onChange={(warehouse) => onChange({ warehouse })}
          />
        </Field>
      </div>
    </>
  );
}

function RequestFields({ draft, onChange }: FieldsProps) {
  return (
    <>
      <div className={styles.pair}>
        <Field label="Action">
          <Select value={draft.action} choices={actions} onChange={(action) => onChange({ action })} />
        </Field>
        <Field label="Object" description="Its address, such as /api/v2/databases/shop/tables/orders.">
          <TextInput isMonospace value={draft.on} onChange={(on) => onChange({ on })} required />
        </Field>
      </div>
      <Field label="Body" description="The body of the request, as JSON." error={bodyFault(draft)}>
        <TextArea isMonospace rows={5} value={draft.body} onChange={(body) => onChange({ body })} />
      </Field>
    </>
  );
}

function RunFields({ draft, onChange }: FieldsProps) {
  return (
    <>
      <div className={styles.pair}>
        <Field label="If the server was down">
          <Select
            value={draft.missedRuns}
            choices={missedChoices}
            onChange={(missedRuns) => onChange({ missedRuns })}
          />
        </Field>
        <Field label="Priority">
          <Select value={draft.priority} choices={priorityChoices} onChange={(priority) => onChange({ priority })} />
        </Field>
      </div>
      <Field label="Comment">
        <TextInput value={draft.comment} onChange={(comment) => onChange({ comment })} />
      </Field>
    </>
  );
}

const custom = 'custom';
const presetChoices = [
  ...presets.map(({ cron, label }) => ({ value: cron, label })),
  { value: custom, label: 'Custom' },
];

function TimeFields({ draft, onChange }: FieldsProps) {
  const zones = useMemo(() => ['UTC', ...Intl.supportedValuesOf('timeZone')], []);
  const isPreset = presets.some(({ cron }) => cron === draft.cron);
  return (
    <div className={styles.triple}>
      <Field label="Runs">
        <Select
          value={isPreset ? draft.cron : custom}
          choices={presetChoices}
          onChange={(cron) => cron !== custom && onChange({ cron })}
        />
      </Field>
      <Field label="Cron expression" description="Minute, hour, day, month, day of the week.">
        <TextInput isMonospace value={draft.cron} onChange={(cron) => onChange({ cron })} required />
      </Field>
      <Field label="Time zone">
        <SuggestedInput
          value={draft.timeZone}
          suggestions={zones}
          onChange={(timeZone) => onChange({ timeZone })}
          required
        />
      </Field>
    </div>
  );
}
