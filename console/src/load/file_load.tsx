// One file on its way into a table: what is known of it, the form with its columns, the running load, and how it ended.
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { errors } from '../../../src/client/index.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading, Progress } from '../ui/feedback.tsx';
import { formatBytes, formatCount } from '../ui/format.ts';
import { type MappedColumn, mapColumns } from './column_mapping.ts';
import { ColumnTable } from './column_table.tsx';
import { CsvDialect } from './csv_dialect.tsx';
import { type LoadForm, newLoadForm, targetOf, withKind } from './load_form.ts';
import { Loaded, LoadProgress } from './load_progress.tsx';
import styles from './load_room.module.css';
import { databaseAt, type InferredFile, type LoadContent, type Place, type Target } from './load_session.ts';
import { MappingTable } from './mapping_table.tsx';
import { TableFields, TargetFields, type TargetFieldsProps } from './target_fields.tsx';
import { isCsvName } from './text_encoding.ts';
import { useLoad } from './use_load.ts';

interface FileLoadProps {
  readonly file: File;
  /** At least one. */
  readonly places: readonly Place[];
  /** The existing table that the user came for. */
  readonly into: Target | undefined;
  readonly onAgain: () => void;
}

export function FileLoad({ file, places, into, onAgain }: FileLoadProps) {
  const [form, setForm] = useState(() => newLoadForm(file, places, into));
  const change = (part: Partial<LoadForm>) => setForm((before) => ({ ...before, ...part }));
  const changeKind = (kind: LoadForm['kind']) => setForm((before) => withKind(before, kind, file));
  const load = useLoad(
    file,
    form.place,
    form.kind === 'existing' && form.existing !== '' ? form.existing : undefined,
    ({ columns }) => change({ columns, sources: {} }),
  );
  const { stage, error, csv } = load;
  const inferred = stage.kind === 'ready' ? stage.inferred : undefined;
  const table = useExistingTable(form);
  const mapped =
    form.kind === 'existing' && inferred && table.data
      ? mapColumns(table.data.columns, inferred, form.sources)
      : undefined;
  const content = contentOf(form, mapped);
  if (stage.kind === 'loaded') return <Loaded {...stage} onAgain={onAgain} />;
  if (stage.kind === 'loading')
    return <LoadProgress record={stage.record} onCancel={() => void stage.task.cancel().catch(load.setError)} />;
  return (
    <>
      <section className={styles.panel} aria-label="File">
        <h2>{file.name}</h2>
        <p className={styles.hint}>{formatBytes(file.size)}</p>
        {stage.kind === 'uploading' && <Progress label="Sending the file" value={stage.progress} />}
        {stage.kind === 'inferring' && <Loading label="Finding the columns" />}
        {error !== undefined && <ErrorPanel title="The file could not be loaded" error={error} onRetry={load.retry} />}
        {stage.kind === 'unreadable' && stage.isSent && load.retry && error instanceof errors.FORBIDDEN && (
          <OtherTable form={form} places={places} onKind={changeKind} onChange={change} onRetry={load.retry} />
        )}
        {stage.kind === 'unreadable' && isCsvName(file.name) && (
          <div className={styles.fields}>
            <CsvDialect detected={undefined} chosen={csv} onChange={load.readAgain} />
          </div>
        )}
        <div>
          <Button onClick={onAgain}>Choose another file</Button>
        </div>
      </section>
      {inferred && (
        <section className={styles.panel} aria-label="Columns and table">
          <div className={styles.fields}>
            <TargetFields
              form={form}
              places={places}
              hasKey={table.data ? table.data.primaryKey.length > 0 : false}
              onKind={changeKind}
              onChange={change}
            />
            {inferred.format === 'csv' && <CsvDialect detected={inferred.csv} chosen={csv} onChange={load.readAgain} />}
          </div>
          {inferred.format === 'csv' && inferred.rows.length === 0 && (
            <p className={styles.hint}>
              No row at the beginning of the file matches these columns. Check its encoding and its delimiter.
            </p>
          )}
          <SampleNotice sample={inferred.sample} />
          <Columns form={form} inferred={inferred} table={table} mapped={mapped} onChange={change} />
          <div className={styles.actions}>
            <Button
              look="primary"
              disabled={!content}
              onClick={() =>
                content &&
                void load.start(targetOf(form), content, { errorsMax: Number(form.errorsMax), label: form.label })
              }
            >
              Load
            </Button>
          </div>
        </section>
      )}
    </>
  );
}

/** The preview has only rows that fit. */
function SampleNotice({ sample }: Pick<InferredFile, 'sample'>) {
  if (!sample || sample.rowsRejected === 0) return null;
  const { rows, rowsRejected } = sample;
  return (
    <p className={styles.notice}>
      {formatCount(rowsRejected)} of the first {formatCount(rows)} rows {rowsRejected === 1 ? 'does' : 'do'} not fit the
      columns of the file. {rowsRejected === 1 ? 'It is' : 'They are'} not shown here, and a load fails unless it may
      reject {rowsRejected === 1 ? 'it' : 'them'}.
    </p>
  );
}

interface OtherTableProps extends Omit<TargetFieldsProps, 'hasKey'> {
  readonly onRetry: () => void;
}

/** The choice of another table for a user who may not load the file into the first one. */
function OtherTable({ form, onRetry, ...fields }: OtherTableProps) {
  const { kind, newTable, existing } = form;
  return (
    <section className={styles.other} aria-label="Another table">
      <p>Choose a table that you may write, or a database in which you may create one.</p>
      <div className={styles.fields}>
        <TableFields form={form} {...fields} />
      </div>
      <div>
        <Button look="primary" disabled={(kind === 'new' ? newTable : existing).trim() === ''} onClick={onRetry}>
          Continue with this table
        </Button>
      </div>
    </section>
  );
}

/** The table that rows are added to, as soon as its name is complete. */
function useExistingTable({ kind, place, existing }: LoadForm) {
  const { catalog, database } = place;
  return useQuery({
    queryKey: ['tables', catalog, database, existing],
    enabled: kind === 'existing' && existing !== '',
    queryFn: ({ signal }) => databaseAt(place).tables(existing).get({ signal }),
  });
}

/** Undefined while the form is not complete. */
function contentOf(form: LoadForm, mapped: readonly MappedColumn[] | undefined): LoadContent | undefined {
  if (!/^\d+$/.test(form.errorsMax)) return undefined;
  const { kind, newTable, columns, mode } = form;
  if (kind === 'new') {
    const isComplete = newTable.trim() !== '' && columns.some(({ isLoaded }) => isLoaded);
    return isComplete ? { kind, columns } : undefined;
  }
  const sources = mapped?.flatMap(({ column: { name }, source }) => (source === null ? [] : [{ name, source }]));
  // Of rows that exist, an upsert changes only the columns of the file.
  const isMissing = mode !== 'upsert' && mapped?.some(({ fit }) => fit === 'missing');
  return sources && sources.length > 0 && !isMissing ? { kind, columns: sources, mode } : undefined;
}

interface ColumnsProps {
  readonly form: LoadForm;
  readonly inferred: InferredFile;
  readonly table: ReturnType<typeof useExistingTable>;
  readonly mapped: readonly MappedColumn[] | undefined;
  readonly onChange: (part: Partial<LoadForm>) => void;
}

function Columns({ form, inferred, table, mapped, onChange }: ColumnsProps) {
  const { kind, columns, existing, sources } = form;
  if (kind === 'new')
    return <ColumnTable file={inferred} columns={columns} onChange={(next) => onChange({ columns: next })} />;
  if (existing === '') return <p className={styles.hint}>Choose the table that the rows are added to.</p>;
  if (table.error)
    return <ErrorPanel title="The table could not be read" error={table.error} onRetry={table.refetch} />;
  if (!mapped) return <Loading label="Reading the table" />;
  return (
    <MappingTable
      file={inferred}
      mapped={mapped}
      onChange={(column, source) => onChange({ sources: { ...sources, [column]: source } })}
    />
  );
}
