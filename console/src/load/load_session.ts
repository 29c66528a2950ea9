// One load of an uploaded file: its inference, its task and its result. Holds no component.
import { Task, type TaskRecord, type UploadRecord } from '../../../src/client/index.ts';
import { client } from '../app/session.ts';

export type Encoding = 'utf-8' | 'utf-16' | 'latin-1';

/** How a CSV file is read; undefined: as detected. */
export interface CsvOptions {
  readonly delimiter?: string;
  readonly header?: boolean;
  readonly encoding?: Encoding;
}

export interface FileColumn {
  /** In the table. */
  readonly name: string;
  /** In the file. */
  readonly source: string;
  readonly type: string;
  readonly isLoaded: boolean;
}

export interface InferredFile {
  readonly columns: readonly FileColumn[];
  readonly rows: readonly (readonly unknown[])[];
  /** The rows at the beginning of the file, and how many of them do not fit; undefined if not known. */
  readonly sample: { readonly rows: number; readonly rowsRejected: number } | undefined;
  readonly format: string;
  readonly bytes: number;
  readonly csv: CsvOptions;
}

export interface Place {
  readonly catalog: string;
  readonly database: string;
}

export interface Target extends Place {
  readonly table: string;
}

export interface RejectedRow {
  readonly row: number | null;
  readonly column: string | null;
  readonly reason: string;
  readonly text: string | null;
}

export interface LoadResult {
  readonly rowsLoaded: number | null;
  readonly rowsRejected: number | null;
  readonly rejectedRows: readonly RejectedRow[];
  /** A load with the same label had been done before: nothing was loaded. */
  readonly repeated: boolean;
  /** To all rejected rows. */
  readonly rejectsLink?: string | undefined;
}

export const databaseAt = ({ catalog, database }: Place) => client.catalogs(catalog).databases(database);

/** `table`: the existing table that the file is loaded into; the right to write it is sufficient then. */
export async function inferColumns(
  place: Place,
  table: string | undefined,
  upload: string,
  csv: CsvOptions | undefined,
  signal: AbortSignal,
): Promise<InferredFile> {
  const body = {
    source: { upload },
    inferOnly: true,
    ...(table === undefined ? {} : { table }),
    ...(csv ? { csv } : {}),
  };
  const found = await databaseAt(place).load(body, { signal }).done({ signal });
  if (!found || !('columns' in found)) throw new Error('the server did not describe the file');
  const { columns, rows, sample, format, bytes } = found;
  const { delimiter, header } = found.csv ?? {};
  return {
    columns: columns.map(({ name, source = name, type = 'STRING' }) => ({ name, source, type, isLoaded: true })),
    rows,
    sample,
    format,
    bytes,
    csv: { ...(delimiter === undefined ? {} : { delimiter }), ...(header === undefined ? {} : { header }) },
  };
}

export type LoadMode = 'append' | 'replace' | 'upsert';

/** What is loaded: into a new table with these columns, or into those of an existing table. */
export type LoadContent =
  | { readonly kind: 'new'; readonly columns: readonly FileColumn[] }
  | {
      readonly kind: 'existing';
      readonly columns: readonly { readonly name: string; readonly source: string }[];
      readonly mode: LoadMode;
    };

export interface LoadOptions {
  readonly csv: CsvOptions | undefined;
  readonly errorsMax: number;
  /** Empty: none. */
  readonly label: string;
  readonly signal: AbortSignal;
}

export interface StartedLoad {
  readonly task: Task;
  /** The task is that of an earlier load with the same label, which made the table of this name. */
  readonly isEarlier: boolean;
}

/** Starts the task that fills the table. */
export async function startLoad(
  target: Target,
  { uploadId, createdAt }: UploadRecord,
  content: LoadContent,
  { csv, errorsMax, label, signal }: LoadOptions,
): Promise<StartedLoad> {
  const file = {
    source: { upload: uploadId },
    errorsMax,
    ...(csv ? { csv } : {}),
    ...(label === '' ? {} : { label }),
  };
  const database = databaseAt(target);
  const { table } = target;
  if (content.kind === 'existing') {
    const { columns, mode } = content;
    const task = (await database.tables(table).load({ ...file, columns, mode }, { signal })) as Task;
    return { task, isEarlier: false };
  }
  const columns = content.columns
    .filter(({ isLoaded }) => isLoaded)
    .map(({ name, source, type }) => ({ name, source, type }));
  const submitted = await database.load({ ...file, table, columns }, { signal });
  if (!(submitted instanceof Task)) throw new Error('the server did not start a load');
  const task = submitted as Task;
  return { task, isEarlier: Date.parse(task.record.submittedAt) < Date.parse(createdAt) };
}

export async function endOfLoad(
  { task, isEarlier }: StartedLoad,
  onProgress: (record: TaskRecord) => void,
  signal: AbortSignal,
): Promise<LoadResult> {
  const done = (await task.done({ onProgress, signal })) as LoadResult;
  const result = { ...done, repeated: done.repeated || isEarlier };
  // Only a record that was read by itself has the link.
  return result.rowsRejected === 0 ? result : { ...result, rejectsLink: (await task.refresh(signal)).rejectsLink };
}
