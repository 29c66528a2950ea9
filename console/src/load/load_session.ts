// One load, from the file to the table: upload, inference, task. Holds no component.
import { Task, type TaskRecord } from '../../../src/client/index.ts';
import { client } from '../app/session.ts';

/** How a CSV file is read; undefined: as detected. */
export interface CsvOptions {
  readonly delimiter?: string;
  readonly header?: boolean;
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
  readonly format: string;
  readonly bytes: number;
  readonly csv: CsvOptions;
}

export interface Target {
  readonly catalog: string;
  readonly database: string;
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
}

const loadsOf = ({ catalog, database }: Target) => client.catalogs(catalog).databases(database);

export async function inferColumns(
  target: Target,
  upload: string,
  csv: CsvOptions | undefined,
  signal: AbortSignal,
): Promise<InferredFile> {
  const body = { source: { upload }, inferOnly: true, ...(csv ? { csv } : {}) };
  const found = await loadsOf(target).load(body, { signal }).done({ signal });
  if (!found || !('columns' in found)) throw new Error('the server did not describe the file');
  const { columns, rows, format, bytes } = found;
  const { delimiter, header } = found.csv ?? {};
  return {
    columns: columns.map(({ name, source = name, type = 'STRING' }) => ({ name, source, type, isLoaded: true })),
    rows,
    format,
    bytes,
    csv: { ...(delimiter === undefined ? {} : { delimiter }), ...(header === undefined ? {} : { header }) },
  };
}

export interface LoadOptions {
  readonly csv: CsvOptions | undefined;
  readonly errorsMax: number;
  readonly signal: AbortSignal;
}

/** Starts the task that creates and fills the table. */
export async function startLoad(
  target: Target,
  upload: string,
  columns: readonly FileColumn[],
  { csv, errorsMax, signal }: LoadOptions,
): Promise<Task> {
  const submitted = await loadsOf(target).load(
    {
      table: target.table,
      source: { upload },
      columns: columns.filter(({ isLoaded }) => isLoaded).map(({ name, source, type }) => ({ name, source, type })),
      errorsMax,
      ...(csv ? { csv } : {}),
    },
    { signal },
  );
  if (submitted instanceof Task) return submitted as Task;
  throw new Error('the server did not start a load');
}

export async function endOfLoad(task: Task, onProgress: (record: TaskRecord) => void, signal: AbortSignal) {
  return (await task.done({ onProgress, signal })) as LoadResult;
}

/** The name of a table for a file: `Flights 2026.csv.gz` → `flights_2026`. */
export function tableNameOf(fileName: string): string {
  const name = fileName
    .toLowerCase()
    .replace(/(\.(csv|tsv|txt|json|ndjson|jsonl|parquet|gz|zst))+$/, '')
    .replaceAll(/[^\p{L}\p{N}]+/gu, '_')
    .replaceAll(/^_+|_+$/g, '');
  return name === '' ? 'table' : name;
}
