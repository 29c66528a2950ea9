// `load`: sends files, or the standard input, to the server and loads them into a table.
import { createReadStream, statSync } from 'node:fs';
import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { loadTableApi } from '../../../api/transfer/load_table.ts';
import { randomId } from '../../../client/random_id.ts';
import { Task, type TaskRecord } from '../../../client/task.ts';
import type { UploadRecord } from '../../../client/upload.ts';
import { addServerOptions, type CallOptions, type Runtime } from '../call_options.ts';
import type { Connection } from '../connection.ts';
import { CommandError } from '../exit_codes.ts';
import { addFieldOptions, bodyOf } from '../field_options.ts';
import type { Output } from '../output/output.ts';
import { bytesText, progressLine, rateText } from '../output/progress_line.ts';
import type { Fields } from '../output/records.ts';
import { exactJson } from '../output/value_text.ts';
import { waitForTask } from '../task_progress.ts';

interface LoadOptions extends CallOptions {
  readonly catalog: string;
  readonly database: string;
  readonly table: string;
  readonly create?: boolean;
  readonly name?: string;
  readonly label?: string;
  readonly body?: string;
}

interface LoadResult {
  readonly rowsLoaded: number | null;
  readonly rowsRejected: number | null;
  readonly rejectedRows?: readonly { readonly row: number; readonly column: string | null; readonly reason: string }[];
}

const rejectedShownMax = 10;

export function loadCommand(runtime: Runtime): Command {
  const command = new Command('load').description(
    'Loads CSV, JSON, NDJSON or Parquet files into a table, each all or nothing. With a label, a file that was loaded before is not loaded again.',
  );
  command.argument('<files...>', 'the files; - for the standard input');
  addServerOptions(command)
    .option('--catalog <name>', 'the catalog', 'default')
    .requiredOption('-d, --database <name>', 'the database')
    .requiredOption('-t, --table <name>', 'the table')
    .option('--create', 'create the table from the first file')
    .option('--name <name>', 'the name of the standard input, whose extension is the format')
    .option('--body <json>', 'further fields of the request as JSON: text, @file, or -')
    .addOption(
      new Option(
        '--label <text>',
        'loads that succeeded with this label (of several files: with the name of the file after it) are not repeated',
      ),
    );
  const omitted = new Set(['source', 'label', 'waitSeconds', 'name', 'dryRun']);
  const fields = addFieldOptions(command, loadTableApi.load.body, omitted);
  command.addHelpText(
    'after',
    '\nExamples:\n  tabularium load orders.csv -d shop -t orders\n  gzip -dc orders.csv.gz | tabularium load - --name orders.csv -d shop -t orders --label 2026-01-31',
  );
  return command.action(async (files: readonly string[]) => {
    const options = command.opts<LoadOptions & Fields>();
    const body = { ...bodyOf(options.body), ...fields(options) };
    const connection = runtime.connect(options);
    const output = runtime.output(options);
    for (const [index, file] of files.entries()) {
      const label =
        options.label === undefined || files.length === 1 ? options.label : `${options.label} ${basename(file)}`;
      const isNewTable = options.create === true && index === 0;
      const work = { file, isNewTable, body: label === undefined ? body : { ...body, label }, options };
      const result = await loadFile(work, connection, output, runtime);
      await output.write(options.json ? `${exactJson({ file, ...result })}\n` : loadedText(file, result));
    }
  });
}

interface FileToLoad {
  readonly file: string;
  readonly isNewTable: boolean;
  readonly body: Fields;
  readonly options: LoadOptions;
}

async function loadFile(
  work: FileToLoad,
  connection: Connection,
  output: Output,
  { signal }: Runtime,
): Promise<LoadResult> {
  const { file, isNewTable, body, options } = work;
  const { uploadId } = await sendFile(file, options, connection, output, signal);
  const { catalog, database, table } = options;
  const place = `/api/v2/catalogs/${encodeURIComponent(catalog)}/databases/${encodeURIComponent(database)}`;
  const path = isNewTable ? `${place}/load` : `${place}/tables/${encodeURIComponent(table)}/load`;
  const source = { upload: uploadId };
  const { status, result } = await connection.transport.send({
    method: 'POST',
    path,
    body: isNewTable ? { ...body, table, source } : { ...body, source },
    isRead: false,
    idempotencyKey: randomId(),
    signal,
  });
  if (status !== 202) return result as unknown as LoadResult;
  return waitForTask(new Task<LoadResult>(connection.transport, result as unknown as TaskRecord), output, signal);
}

async function sendFile(
  file: string,
  { name }: LoadOptions,
  { client }: Connection,
  output: Output,
  signal: AbortSignal,
): Promise<UploadRecord> {
  const isInput = file === '-';
  const fileName = isInput ? name : basename(file);
  if (fileName === undefined)
    throw new CommandError(
      'usage',
      'give --name with the extension of the format, such as --name orders.csv, for the standard input',
    );
  const bytes = isInput ? undefined : sizeOf(file);
  const source = isInput ? process.stdin : createReadStream(file, { highWaterMark: 1024 * 1024 });
  const line = progressLine(output);
  const began = performance.now();
  try {
    return await client.upload(source as AsyncIterable<Uint8Array>, {
      name: fileName,
      ...(bytes === undefined ? {} : { bytes }),
      signal,
      onProgress({ bytes: sent }) {
        const rate = rateText(sent, began);
        const done = bytes === undefined ? null : bytes === 0 ? 1 : sent / bytes;
        line.show(`${fileName}: ${bytesText(sent)} sent, ${rate}`, done, began);
      },
    });
  } finally {
    line.end();
  }
}

function sizeOf(file: string): number | undefined {
  try {
    const stats = statSync(file);
    if (stats.isDirectory()) throw new CommandError('usage', `${file} is a directory`);
    return stats.isFile() ? stats.size : undefined;
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new CommandError('usage', `the file ${file} cannot be read (${code ?? String(error)})`, { cause: error });
  }
}

function loadedText(file: string, { rowsLoaded, rowsRejected, rejectedRows = [] }: LoadResult): string {
  const rejected = rowsRejected ? `, ${rowsRejected} rejected` : '';
  const lines = rejectedRows
    .slice(0, rejectedShownMax)
    .map(({ row, column, reason }) => `  row ${row}${column ? `, ${column}` : ''}: ${reason}\n`);
  return `${file}: ${rowsLoaded ?? 'an unknown number of'} rows loaded${rejected}\n${lines.join('')}`;
}
