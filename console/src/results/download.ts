// Downloads of a result: the server runs the statement again and writes files, whose links the browser follows.
import { client } from '../app/session.ts';
import { showFailure, showToast } from '../ui/toasts.tsx';
import type { Statement } from './messages.ts';

export const downloadFormats = [
  { format: 'csv', label: 'CSV' },
  { format: 'parquet', label: 'Parquet' },
  { format: 'arrow', label: 'Arrow' },
  { format: 'ndjson', label: 'JSON lines' },
] as const;

type Format = (typeof downloadFormats)[number]['format'];

export async function downloadResult({ sql, place, parameters, warehouse }: Statement, format: Format): Promise<void> {
  const { catalog, database } = place;
  const target = client.catalogs(catalog);
  const body = {
    sql,
    format,
    ...(parameters == null ? {} : { parameters: parameters as unknown[] }),
    ...(warehouse === undefined ? {} : { warehouse }),
  };
  showToast('The file is being written', 'The download begins when it is complete.');
  try {
    const options = { idempotencyKey: false } as const;
    const answer =
      database === undefined ? target.query(body, options) : target.databases(database).query(body, options);
    const { files = [] } = await answer.done();
    for (const { uri } of files) if (uri !== undefined) follow(uri);
  } catch (error) {
    showFailure('The result could not be downloaded', error);
  }
}

/** The server names the file. */
function follow(uri: string): void {
  const link = document.createElement('a');
  link.href = uri;
  link.download = '';
  link.click();
}
