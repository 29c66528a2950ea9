// The load room: a file is dropped, its columns are inferred and corrected, and a task makes a table of it.
import { useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { Task, TaskRecord } from '../../../src/client/index.ts';
import { queryClient } from '../app/queries.ts';
import { client } from '../app/session.ts';
import { objectsStore } from '../explorer/objects_store.ts';
import { Button } from '../ui/button.tsx';
import { ErrorPanel } from '../ui/error_panel.tsx';
import { Loading, Progress } from '../ui/feedback.tsx';
import { Field, TextInput } from '../ui/field.tsx';
import { formatBytes } from '../ui/format.ts';
import { Select } from '../ui/select.tsx';
import { ColumnTable } from './column_table.tsx';
import { DropZone } from './drop_zone.tsx';
import { Loaded, LoadProgress } from './load_progress.tsx';
import styles from './load_room.module.css';
import {
  type CsvOptions,
  endOfLoad,
  type FileColumn,
  type InferredFile,
  inferColumns,
  type LoadResult,
  startLoad,
  type Target,
  tableNameOf,
} from './load_session.ts';
import { uploadFile } from './upload_file.ts';

type Stage =
  | { readonly kind: 'empty' }
  | { readonly kind: 'uploading'; readonly progress: number }
  | { readonly kind: 'inferring' }
  | { readonly kind: 'ready'; readonly inferred: InferredFile }
  | { readonly kind: 'loading'; readonly inferred: InferredFile; readonly task: Task; readonly record: TaskRecord }
  | { readonly kind: 'loaded'; readonly result: LoadResult };

interface Place {
  readonly catalog: string;
  readonly database: string;
}

async function places(signal: AbortSignal): Promise<Place[]> {
  const catalogs = await client.catalogs.list({}, { signal }).all();
  const found = await Promise.all(
    catalogs.map(async ({ name: catalog }) => {
      const databases = await client.catalogs(catalog).databases.list({ pageSize: 500 }, { signal }).all();
      return databases.map(({ name: database }) => ({ catalog, database }));
    }),
  );
  return found.flat();
}

const keyOf = ({ catalog, database }: Place) => JSON.stringify([catalog, database]);

export function Room() {
  const [file, setFile] = useState<File>();
  const { data, error, refetch } = useQuery({
    queryKey: ['databases', 'load'],
    queryFn: ({ signal }) => places(signal),
  });
  if (error)
    return (
      <div className={styles.room}>
        <ErrorPanel title="The databases could not be listed" error={error} onRetry={refetch} />
      </div>
    );
  if (!data) return <Loading />;
  return (
    <div className={styles.room}>
      {data.length === 0 ? (
        <NewDatabase onCreated={refetch} />
      ) : file ? (
        <FileLoad
          key={`${file.name} ${file.lastModified}`}
          file={file}
          places={data}
          onAgain={() => setFile(undefined)}
        />
      ) : (
        <DropZone onFile={setFile} />
      )}
    </div>
  );
}

function NewDatabase({ onCreated }: { readonly onCreated: () => unknown }) {
  const [name, setName] = useState('files');
  const [error, setError] = useState<unknown>();
  const create = () => {
    client.databases.create({ name }, { ifExists: 'return' }).then(onCreated, setError);
  };
  return (
    <section className={styles.panel} aria-label="Database">
      <h2>A table needs a database</h2>
      <Field label="Name of the new database">
        <TextInput value={name} onChange={setName} />
      </Field>
      {error !== undefined && <ErrorPanel title="The database could not be created" error={error} />}
      <div>
        <Button look="primary" disabled={name.trim() === ''} onClick={create}>
          Create the database
        </Button>
      </div>
    </section>
  );
}

interface FileLoadProps {
  readonly file: File;
  readonly places: readonly Place[];
  readonly onAgain: () => void;
}

function FileLoad({ file, places: all, onAgain }: FileLoadProps) {
  const [place, setPlace] = useState<Place>(all[0] as Place);
  const [table, setTable] = useState(tableNameOf(file.name));
  const [errorsMax, setErrorsMax] = useState('0');
  const load = useLoad(file, { ...place, table });
  const { stage, error, columns, csv } = load;
  if (stage.kind === 'loaded') return <Loaded result={stage.result} target={{ ...place, table }} onAgain={onAgain} />;
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
        <div>
          <Button onClick={onAgain}>Choose another file</Button>
        </div>
      </section>
      {stage.kind === 'ready' && (
        <section className={styles.panel} aria-label="Columns and table">
          <div className={styles.fields}>
            <Field label="Database">
              <Select
                value={keyOf(place)}
                choices={all.map((one) => ({ value: keyOf(one), label: `${one.catalog}.${one.database}` }))}
                onChange={(key) => setPlace(all.find((one) => keyOf(one) === key) ?? place)}
              />
            </Field>
            <Field label="New table">
              <TextInput value={table} onChange={setTable} />
            </Field>
            <Field label="Rows that may be rejected">
              <TextInput value={errorsMax} onChange={setErrorsMax} inputMode="numeric" />
            </Field>
            {stage.inferred.format === 'csv' && (
              <Dialect read={stage.inferred.csv} asked={csv} onChange={(next) => load.readAgain(next)} />
            )}
          </div>
          <ColumnTable file={stage.inferred} columns={columns} onChange={load.setColumns} />
          <div className={styles.actions}>
            <Button
              look="primary"
              disabled={table.trim() === '' || !columns.some(({ isLoaded }) => isLoaded) || !/^\d+$/.test(errorsMax)}
              onClick={() => void load.start(Number(errorsMax))}
            >
              Load
            </Button>
          </div>
        </section>
      )}
    </>
  );
}

interface DialectProps {
  readonly read: CsvOptions;
  readonly asked: CsvOptions | undefined;
  readonly onChange: (csv: CsvOptions) => void;
}

const delimiters = [',', ';', '\t', '|'] as const;

/** How a CSV file is read; a change reads its beginning again. */
function Dialect({ read, asked, onChange }: DialectProps) {
  const current = { ...read, ...asked };
  const delimiter = current.delimiter ?? ',';
  const known: readonly string[] = delimiters;
  const choices = (known.includes(delimiter) ? known : [...known, delimiter]).map((value) => ({
    value,
    label: value === '\t' ? 'Tab' : value,
  }));
  return (
    <>
      <Field label="Delimiter">
        <Select value={delimiter} choices={choices} onChange={(value) => onChange({ ...asked, delimiter: value })} />
      </Field>
      <Field label="First line">
        <Select
          value={String(current.header ?? true)}
          choices={[
            { value: 'true', label: 'Column names' },
            { value: 'false', label: 'A row' },
          ]}
          onChange={(value) => onChange({ ...asked, header: value === 'true' })}
        />
      </Field>
    </>
  );
}

/** The load of a file: sends it at once, infers its columns, and runs the task. Leaving the room ends what waits. */
function useLoad(file: File, target: Target) {
  const [stage, setStage] = useState<Stage>({ kind: 'empty' });
  const [error, setError] = useState<unknown>();
  const [columns, setColumns] = useState<readonly FileColumn[]>([]);
  const [csv, setCsv] = useState<CsvOptions>();
  const [attempt, setAttempt] = useState(0);
  const upload = useRef<string>(undefined);
  const leaving = useRef<AbortController>(undefined);
  const { catalog, database } = target;

  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt repeats what failed
  useEffect(() => {
    const controller = new AbortController();
    leaving.current = controller;
    const { signal } = controller;
    const run = async () => {
      setError(undefined);
      setStage({ kind: 'uploading', progress: 0 });
      const onProgress = (progress: number) => setStage({ kind: 'uploading', progress });
      upload.current ??= await uploadFile(file, { onProgress, signal });
      setStage({ kind: 'inferring' });
      const inferred = await inferColumns({ catalog, database, table: '' }, upload.current, csv, signal);
      setColumns(inferred.columns);
      setStage({ kind: 'ready', inferred });
    };
    run().catch((failure: unknown) => {
      if (!signal.aborted) setError(failure);
    });
    return () => controller.abort();
  }, [file, csv, attempt]);

  const start = async (errorsMax: number) => {
    const signal = leaving.current?.signal;
    if (stage.kind !== 'ready' || upload.current === undefined || !signal) return;
    const { inferred } = stage;
    setError(undefined);
    try {
      const task = await startLoad(target, upload.current, columns, { csv, errorsMax, signal });
      const onProgress = (record: TaskRecord) => setStage({ kind: 'loading', inferred, task, record });
      const result = await endOfLoad(task, onProgress, signal);
      setStage({ kind: 'loaded', result });
      objectsStore.refresh();
      await queryClient.invalidateQueries({ queryKey: ['databases'] });
    } catch (failure) {
      if (signal.aborted) return;
      setError(failure);
      setStage({ kind: 'ready', inferred });
    }
  };
  const retry = stage.kind === 'ready' ? undefined : () => setAttempt((n) => n + 1);
  return { stage, error, setError, columns, setColumns, csv, readAgain: setCsv, start, retry };
}
