// Runs one statement and writes its rows as they arrive, so that a result of any size takes little memory. An abort cancels it on the server.

import { setImmediate as turn } from 'node:timers/promises';
import type { Query } from '../../../client/query.ts';
import { randomId } from '../../../client/random_id.ts';
import type { TaskRecord } from '../../../client/task.ts';
import type { Value } from '../../../client/values.ts';
import type { Runtime } from '../call_options.ts';
import { cancelTask } from '../cancelling.ts';
import type { Connection } from '../connection.ts';
import { CommandError } from '../exit_codes.ts';
import { writeFileOutput } from '../output/file_output.ts';
import type { Output } from '../output/output.ts';
import { progressLine } from '../output/progress_line.ts';
import { type RowFormat, writerOf } from '../output/row_formats.ts';

export type StatementFormat = RowFormat | 'arrow';

export interface StatementOptions {
  readonly connection: Connection;
  readonly runtime: Runtime;
  readonly signal: AbortSignal;
  readonly catalog: string;
  readonly database?: string;
  readonly warehouse?: string;
  readonly format?: StatementFormat;
  /** A file for the rows, which is replaced. */
  readonly output?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly timing?: boolean;
}

const rowsAtOnce = 1000;
const secondsBeforeProgress = 1;

/** Throws TabulariumError; after an abort, the reason of the signal, or NotCancelled. */
export async function runStatement(sql: string, options: StatementOptions): Promise<void> {
  const { connection, runtime, signal, catalog, database, warehouse } = options;
  const output = runtime.output(options);
  const line = progressLine(output);
  const began = performance.now();
  const onProgress = (record: TaskRecord) => {
    if (performance.now() - began > secondsBeforeProgress * 1000)
      line.show(`${record.progressText || record.state}`, record.progress, began);
  };
  const place = { catalog, database, ...(warehouse === undefined ? {} : { warehouse }) };
  // With a key, a statement whose response was lost is sent again without being done twice.
  const query: Query = connection.client.query(sql, { ...place, idempotencyKey: randomId(), onProgress, signal });
  try {
    const format = options.json
      ? 'json'
      : (options.format ?? (output.isTerminal && options.output === undefined ? 'table' : 'csv'));
    const writeTo = (target: Output) =>
      format === 'arrow' ? writeArrow(query, target) : writeRows(query, format, target, line.end);
    await (options.output === undefined ? writeTo(output) : writeFileOutput(options.output, output, writeTo));
    if (options.timing) output.note(`${(performance.now() - began).toFixed(0)} ms`);
  } catch (error) {
    // The statement of a request ends with its connection; a task continues.
    const { taskId } = query;
    if (signal.aborted && taskId !== undefined) await cancelTask(taskId, (within) => query.cancel(within));
    throw error;
  } finally {
    line.end();
  }
}

async function writeRows(query: Query, format: RowFormat, target: Output, begun: () => void): Promise<void> {
  const { columns } = await query.begun();
  const writer = writerOf(format, columns, target.isTerminal ? { width: target.columns } : {});
  let rows: (readonly Value[])[] = [];
  let count = 0;
  for await (const row of query.arrays()) {
    rows.push(row);
    if (rows.length < rowsAtOnce) continue;
    begun();
    count += rows.length;
    await target.write(writer.rows(rows));
    rows = [];
    // A terminal is written synchronously, and a page has many rows: without a turn of the event loop, Ctrl-C would be read after the page.
    await turn();
  }
  begun();
  await target.write(writer.rows(rows) + writer.end(count + rows.length));
}

/** The stream format, which can be read from a pipe, is not offered for a result; the file format can be written to one. */
async function writeArrow(query: Query, target: Output): Promise<void> {
  if (target.isTerminal) throw new CommandError('usage', 'the format arrow is binary: give --output, or a pipe');
  for await (const chunk of await query.arrowStream()) await target.write(chunk);
}
