// Downloads of a result. The worker writes text files from the rows of the result; files in binary formats are written by the server,
// which runs the statement again for them.
import { client } from '../app/session.ts';
import { showFailure, showToast } from '../ui/overlays/toasts.tsx';
import type { FileFormat, Statement } from './run/messages.ts';
import type { StatementRun } from './run/statement_run.ts';

export const downloadFormats = [
  { format: 'csv', label: 'CSV' },
  { format: 'ndjson', label: 'JSON lines' },
  { format: 'parquet', label: 'Parquet (runs again)' },
  { format: 'arrow', label: 'Arrow (runs again)' },
] as const;

type Format = (typeof downloadFormats)[number]['format'];

const isText = (format: Format): format is FileFormat => format === 'csv' || format === 'ndjson';

/** How long the browser may take to begin with a file. */
const linkMs = 60_000;

export async function downloadResult(run: StatementRun, format: Format): Promise<void> {
  showToast('The file is being written', 'The download begins when it is complete.');
  try {
    if (isText(format)) await downloadRows(run, format);
    else await downloadAgain(run.statement, format);
  } catch (error) {
    showFailure('The result could not be downloaded', error);
  }
}

async function downloadRows(run: StatementRun, format: FileFormat): Promise<void> {
  const link = URL.createObjectURL(await run.ask({ kind: 'file', format }));
  follow(link, `result.${format}`);
  setTimeout(() => URL.revokeObjectURL(link), linkMs);
}

async function downloadAgain({ sql, place, parameters, warehouse }: Statement, format: Format): Promise<void> {
  const { catalog, database } = place;
  const target = client.catalogs(catalog);
  const body = {
    sql,
    format,
    ...(parameters == null ? {} : { parameters: parameters as unknown[] }),
    ...(warehouse === undefined ? {} : { warehouse }),
  };
  const options = { idempotencyKey: false } as const;
  const answer = database === undefined ? target.query(body, options) : target.databases(database).query(body, options);
  const { files = [] } = await answer.done();
  // The server names the files.
  for (const { uri } of files) if (uri !== undefined) follow(uri, '');
}

function follow(uri: string, name: string): void {
  const link = document.createElement('a');
  link.href = uri;
  link.download = name;
  link.click();
}
