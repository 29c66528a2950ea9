// `export`: writes the rows of a query or a table to files on this machine, or to the standard output.

import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Command, Option } from 'commander';
import { exportQueryApi } from '../../../api/transfer/export_actions.ts';
import { randomId } from '../../../client/random_id.ts';
import { Task, type TaskRecord } from '../../../client/task.ts';
import { exportFormats } from '../../../model/export_formats.ts';
import { addServerOptions, type CallOptions, type Runtime } from '../call_options.ts';
import type { Connection } from '../connection.ts';
import { CommandError } from '../exit_codes.ts';
import { addFieldOptions, bodyOf, textOfFile } from '../field_options.ts';
import { writeFileOutput } from '../output/file_output.ts';
import type { Output } from '../output/output.ts';
import { bytesText, progressLine, rateText } from '../output/progress_line.ts';
import type { Fields } from '../output/records.ts';
import { exactJson } from '../output/value_text.ts';
import { waitForTask } from '../task_progress.ts';

interface ExportOptions extends CallOptions {
  readonly catalog: string;
  readonly database: string;
  readonly table?: string;
  readonly command?: string;
  readonly file?: string;
  readonly format?: (typeof exportFormats)[number];
  readonly output?: string;
  readonly body?: string;
}

interface ExportedFile {
  readonly name: string;
  readonly bytes: number;
  readonly link?: string;
}
interface ExportResult {
  readonly files: readonly ExportedFile[];
  readonly rowCount: number;
}

export function exportCommand(runtime: Runtime): Command {
  const command = new Command('export').description(
    'Exports the rows of a query or a table as Parquet, CSV, NDJSON or Arrow to a file, a directory or a pipe.',
  );
  addServerOptions(command)
    .option('--catalog <name>', 'the catalog', 'default')
    .requiredOption('-d, --database <name>', 'the database')
    .option('-t, --table <name>', 'the table')
    .option('-c, --command <sql>', 'the query')
    .option('-f, --file <path>', 'a file with the query; - for the standard input')
    .option('-o, --output <path>', 'the file, or for several files the directory; by default the standard output')
    .addOption(
      new Option('--format <format>', 'by default that of the extension of the output').choices([...exportFormats]),
    )
    .option('--body <json>', 'further fields of the request as JSON: text, @file, or -');
  const fields = addFieldOptions(
    command,
    exportQueryApi('database').export.body,
    new Set(['sql', 'format', 'to', 'waitSeconds']),
  );
  command.addHelpText(
    'after',
    "\nExamples:\n  tabularium export -d shop -t orders -o orders.parquet\n  tabularium export -d shop -c 'SELECT * FROM orders' --format csv | gzip > orders.csv.gz",
  );
  return command.action(async () => {
    const options = command.opts<ExportOptions & Fields>();
    const body = { ...bodyOf(options.body), ...fields(options), ...requestOf(options) };
    const connection = runtime.connect(options);
    const output = runtime.output(options);
    const task = await submit(body, options, connection, runtime.signal);
    try {
      const result = await waitForTask(task, output, runtime.signal);
      await writeFiles(result, options, { connection, output, signal: runtime.signal });
      const { rowCount, files } = result;
      if (options.output === undefined) return;
      const shown = files.map(({ name, bytes }) => ({ name, bytes }));
      await output.write(
        options.json ? `${exactJson({ rowCount, files: shown })}\n` : `${rowCount} rows in ${options.output}\n`,
      );
    } finally {
      // The files count towards the quota of the caller.
      await connection.transport.send({ method: 'DELETE', path: task.uri, isRead: true }).catch(() => undefined);
    }
  });
}

function requestOf({ table, command, file, format, output }: ExportOptions): Fields {
  const given = [table, command, file].filter((each) => each !== undefined);
  if (given.length !== 1) throw new CommandError('usage', 'give one of --table, --command and --file');
  const extension = /\.(\w+)(?:\.gz|\.zst)?$/.exec(output ?? '')?.[1];
  const known = exportFormats.find((each) => each === (extension === 'arrows' ? 'arrow' : extension));
  const chosen = format ?? known;
  if (chosen === undefined) throw new CommandError('usage', `give --format: ${exportFormats.join(', ')}`);
  const sql = command ?? (file === undefined ? undefined : textOfFile(file));
  return { format: chosen, ...(sql === undefined ? {} : { sql }) };
}

async function submit(
  body: Fields,
  options: ExportOptions,
  { transport }: Connection,
  signal: AbortSignal,
): Promise<Task<ExportResult>> {
  const { catalog, database, table } = options;
  const place = `/api/v2/catalogs/${encodeURIComponent(catalog)}/databases/${encodeURIComponent(database)}`;
  const path = table === undefined ? `${place}/export` : `${place}/tables/${encodeURIComponent(table)}/export`;
  signal.throwIfAborted();
  // Without the signal: a task whose record did not arrive could not be cancelled.
  const { result } = await transport.send({ method: 'POST', path, body, isRead: false, idempotencyKey: randomId() });
  return new Task<ExportResult>(transport, result as unknown as TaskRecord);
}

interface Download {
  readonly connection: Connection;
  readonly output: Output;
  readonly signal: AbortSignal;
}

/** One file to the output itself; several into a directory, which exists. */
async function writeFiles({ files }: ExportResult, { output: path }: ExportOptions, download: Download): Promise<void> {
  const data = files.filter(({ name }) => name !== 'manifest.json');
  const isDirectory = path !== undefined && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  if (data.length !== 1 && !isDirectory)
    throw new CommandError('usage', `the export has ${data.length} files: give an existing directory as --output`);
  if (path === undefined && download.output.isTerminal)
    throw new CommandError('usage', 'files are not written to a terminal: give --output, or a pipe');
  for (const file of data) {
    const writeTo = (target: Output) => writeFile(file, target, download);
    if (path === undefined) await writeTo(download.output);
    else await writeFileOutput(isDirectory ? join(path, basename(file.name)) : path, download.output, writeTo);
  }
}

async function writeFile(
  { name, bytes, link = '' }: ExportedFile,
  target: Output,
  { connection, output, signal }: Download,
): Promise<void> {
  const line = progressLine(output);
  const began = performance.now();
  let received = 0;
  try {
    for await (const chunk of connection.client.download(link, { signal })) {
      await target.write(chunk);
      received += chunk.length;
      line.show(
        `${name}: ${bytesText(received)} received, ${rateText(received, began)}`,
        bytes === 0 ? 1 : received / bytes,
        began,
      );
    }
  } finally {
    line.end();
  }
}
