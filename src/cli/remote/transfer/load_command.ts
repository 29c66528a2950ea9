// `load`: sends files, or the standard input, to the server and loads them into a table.
import { accessSync, constants, createReadStream, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Command, Option } from 'commander';
import { loadTableApi } from '../../../api/transfer/load_table.ts';
import { TabulariumError } from '../../../client/errors.ts';
import { randomId } from '../../../client/random_id.ts';
import { Task, type TaskRecord } from '../../../client/task.ts';
import { addServerOptions, type CallOptions, type Runtime } from '../call_options.ts';
import type { Connection } from '../connection.ts';
import { CommandError, exitCodes } from '../exit_codes.ts';
import { addFieldOptions, bodyOf, unreadable } from '../field_options.ts';
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
  /** It was loaded before with this label, and not again. */
  readonly repeated?: boolean;
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
    const sources = files.map((file) => sourceOf(file, options));
    if (sources.filter(({ isInput }) => isInput).length > 1)
      throw new CommandError('usage', 'the standard input can be given once: name the other files');
    for (const [index, file] of sources.entries()) {
      const label = options.label === undefined || files.length === 1 ? options.label : `${options.label} ${file.name}`;
      const isNewTable = options.create === true && index === 0;
      const work = { file, isNewTable, body: label === undefined ? body : { ...body, label }, options };
      const result = await loadFile(work, connection, output, runtime);
      await output.write(
        options.json ? `${exactJson({ file: file.shown, ...result })}\n` : loadedText(file.shown, result),
      );
    }
  });
}

interface Source {
  readonly isInput: boolean;
  /** As given, or as in `--name`. */
  readonly shown: string;
  /** Its extension is the format. */
  readonly name: string;
  readonly path: string;
  /** Undefined if it is unknown. */
  readonly bytes: number | undefined;
}

interface FileToLoad {
  readonly file: Source;
  readonly isNewTable: boolean;
  readonly body: Fields;
  readonly options: LoadOptions;
}

/** The upload is deleted unless a task still reads it: uploads count towards the quota of the caller. */
async function loadFile(
  work: FileToLoad,
  connection: Connection,
  output: Output,
  { signal }: Runtime,
): Promise<LoadResult> {
  const uploadId = randomId();
  try {
    const earlier = await loadedBefore(work, uploadId, connection, output, signal);
    if (earlier) return earlier;
    await sendFile(work.file, uploadId, connection, output, signal);
    signal.throwIfAborted();
    const result = await loadUpload(work, uploadId, connection, output, signal);
    await removeUpload(uploadId, connection);
    return result;
  } catch (error) {
    if (!isServerLost(error)) await removeUpload(uploadId, connection);
    throw error;
  }
}

/** Asks for the load before its file is sent: only a load that is done already needs none. */
async function loadedBefore(
  work: FileToLoad,
  uploadId: string,
  connection: Connection,
  output: Output,
  signal: AbortSignal,
): Promise<LoadResult | undefined> {
  if (work.body.label === undefined) return undefined;
  try {
    const result = await loadUpload(work, uploadId, connection, output, signal);
    // Read to its end: a writer whose pipe breaks would end with a failure.
    if (work.file.isInput) for await (const _ of chunksOf(work.file, signal)) signal.throwIfAborted();
    return result;
  } catch (error) {
    if (lacksUpload(error)) return undefined;
    throw error;
  }
}

/** Whether the one thing wrong with a request is that its upload does not exist. */
function lacksUpload(error: unknown): boolean {
  if (!(error instanceof TabulariumError) || error.code !== 'INVALID_PARAMETER') return false;
  const { violations } = error.result as { readonly violations?: readonly { readonly pointer?: string }[] };
  return violations?.length === 1 && violations[0]?.pointer === '/source/upload';
}

async function loadUpload(
  { isNewTable, body, options }: FileToLoad,
  uploadId: string,
  { transport }: Connection,
  output: Output,
  signal: AbortSignal,
): Promise<LoadResult> {
  const { catalog, database, table } = options;
  const place = `/api/v2/catalogs/${encodeURIComponent(catalog)}/databases/${encodeURIComponent(database)}`;
  const path = isNewTable ? `${place}/load` : `${place}/tables/${encodeURIComponent(table)}/load`;
  const source = { upload: uploadId };
  // Without the signal: a task whose record did not arrive could not be cancelled.
  const { status, result } = await transport.send({
    method: 'POST',
    path,
    body: isNewTable ? { ...body, table, source } : { ...body, source },
    isRead: false,
    idempotencyKey: randomId(),
  });
  if (status !== 202) return result as unknown as LoadResult;
  return waitForTask(new Task<LoadResult>(transport, result as unknown as TaskRecord), output, signal);
}

const isServerLost = (error: unknown): boolean =>
  error instanceof CommandError
    ? error.exitCode === exitCodes.unavailable.code
    : error instanceof TabulariumError && error.status === 0;

async function removeUpload(uploadId: string, { transport }: Connection): Promise<void> {
  const path = `/api/v2/uploads/${uploadId}`;
  await transport.send({ method: 'DELETE', path, isRead: true }).catch(() => undefined);
}

async function sendFile(
  source: Source,
  uploadId: string,
  { client }: Connection,
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const { name, bytes } = source;
  const line = progressLine(output);
  const began = performance.now();
  if (source.isInput && process.stdin.isTTY)
    output.note('reading what is typed; Ctrl-D at the start of a line ends it');
  try {
    await client.upload(chunksOf(source, signal), {
      name,
      uploadId,
      ...(bytes === undefined ? {} : { bytes }),
      signal,
      onProgress({ bytes: sent }) {
        const rate = rateText(sent, began);
        const done = bytes === undefined ? null : bytes === 0 ? 1 : sent / bytes;
        line.show(`${name}: ${bytesText(sent)} sent, ${rate}`, done, began);
      },
    });
  } finally {
    line.end();
  }
}

/** Throws CommandError if it cannot be read to its end. */
async function* chunksOf({ isInput, path, shown }: Source, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const stream = isInput ? process.stdin : createReadStream(path, { highWaterMark: 1024 * 1024 });
  // A pipe whose writer pauses is waited for without a limit.
  const end = () => void stream.destroy();
  signal.addEventListener('abort', end, { once: true });
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) yield chunk;
  } catch (error) {
    throw signal.aborted ? signal.reason : unreadable(shown, error);
  } finally {
    signal.removeEventListener('abort', end);
  }
}

/** Throws CommandError if the file cannot be read. */
function sourceOf(file: string, { name }: LoadOptions): Source {
  if (file === '-') {
    if (name !== undefined) return { isInput: true, shown: name, name, path: file, bytes: undefined };
    throw new CommandError(
      'usage',
      'give --name with the extension of the format, such as --name orders.csv, for the standard input',
    );
  }
  try {
    accessSync(file, constants.R_OK);
    const stats = statSync(file);
    if (stats.isDirectory())
      throw new CommandError('usage', `${file} is a directory: give its files, such as ${join(file, '*.csv')}`);
    const bytes = stats.isFile() ? stats.size : undefined;
    return { isInput: false, shown: file, name: basename(file), path: file, bytes };
  } catch (error) {
    throw error instanceof CommandError ? error : unreadable(file, error);
  }
}

function loadedText(file: string, { repeated, rowsLoaded, rowsRejected, rejectedRows = [] }: LoadResult): string {
  if (repeated)
    return `${file}: loaded before with this label (${rowsLoaded ?? 'an unknown number of'} rows), and not again\n`;
  const rejected = rowsRejected ? `, ${rowsRejected} rejected` : '';
  const lines = rejectedRows
    .slice(0, rejectedShownMax)
    .map(({ row, column, reason }) => `  row ${row}${column ? `, ${column}` : ''}: ${reason}\n`);
  return `${file}: ${rowsLoaded ?? 'an unknown number of'} ${rowsLoaded === 1 ? 'row' : 'rows'} loaded${rejected}\n${lines.join('')}`;
}
