// Loads, exports and results that are larger than memory should be, through pipes: what arrives is compared with what was sent, and the
// memory of the command and of the server with that of a small one. The suite sends some megabytes, a soak a gigabyte.
import assert from 'node:assert/strict';
import type { ServerProcess } from '../../../server.ts';
import type { CommandLine } from '../command_process.ts';
import { type Measured, peakMiB, runMeasured } from './measured_command.ts';
import { numberedRows, type RowSums, sumsOfCsv } from './numbered_rows.ts';

export interface StreamsOptions {
  readonly line: CommandLine;
  readonly server: ServerProcess;
  readonly database: string;
  readonly seed: number;
  readonly timeoutMs: number;
}

export interface Transferred {
  readonly bytes: number;
  readonly rows: number;
  readonly seconds: number;
  /** Of the command. */
  readonly commandMiB: number;
  /** Of the server up to then. */
  readonly serverMiB: number;
}

/**
 * How much more memory a command may take for a large stream than for a small one. Parts of 8 MiB are in memory until they are stored; a page of
 * 8 MiB of a result is its bytes, then a text of which some rows are decoded at a time, then garbage until it is collected.
 */
const growthMiBMax = { load: 96, export: 96, sql: 128 } as const;

const succeeded = ({ code, stderr }: Measured) => assert.deepEqual([code, stderr], [0, '']);

const measure = (
  { server }: StreamsOptions,
  began: number,
  { peakMiB: commandMiB }: Measured,
  { bytes, rows }: { readonly bytes: number; readonly rows: number },
): Transferred => {
  const seconds = Math.round(performance.now() - began) / 1000;
  return { bytes, rows, seconds, commandMiB, serverMiB: peakMiB(server.child.pid) ?? 0 };
};

async function requireRows({ server, database }: StreamsOptions, table: string, sums: RowSums): Promise<void> {
  const [row] = await server.rows(database, `SELECT count(*), sum(amount), count(DISTINCT id) FROM ${table}`);
  assert.deepEqual((row as readonly unknown[]).map(Number), [sums.rows, sums.amount, sums.rows]);
}

/** Loads a new table from a pipe, then again with the same label: the second load adds nothing. */
export async function loadFromPipe(options: StreamsOptions, table: string, bytes: number): Promise<Transferred> {
  const { line, database, seed, timeoutMs } = options;
  const words = ['load', '-', '--name', 'rows.csv', '-d', database, '-t', table, '--label', `label of ${table}`];
  const sums: RowSums = { rows: 0, amount: 0 };
  const began = performance.now();
  let written = '';
  const onOutput = (chunk: Buffer) => {
    written += chunk.toString();
  };
  const input = numberedRows(seed, bytes, sums);
  const loaded = await runMeasured(line, [...words, '--create'], { input, onOutput, timeoutMs });
  succeeded(loaded);
  assert.equal(written, `rows.csv: ${sums.rows} rows loaded\n`);
  await requireRows(options, table, sums);
  const result = measure(options, began, loaded, { bytes, rows: sums.rows });
  const again = { rows: 0, amount: 0 };
  succeeded(await runMeasured(line, words, { input: numberedRows(seed, bytes, again), timeoutMs }));
  assert.deepEqual(again, sums, 'the pipe is read to its end');
  await requireRows(options, table, sums);
  assert.deepEqual(await options.server.client.uploads.list().all(), []);
  return result;
}

/** Exports the table to a pipe; `command` is `export`, or `sql`, whose result is read page by page. */
export async function readThroughPipe(
  options: StreamsOptions,
  table: string,
  command: 'export' | 'sql',
): Promise<Transferred> {
  const { line, database, timeoutMs, server } = options;
  const found = sumsOfCsv();
  let bytes = 0;
  const began = performance.now();
  const query = `SELECT id, amount FROM ${table}`;
  const read = await runMeasured(line, [command, '-d', database, '-c', query, '--format', 'csv'], {
    onOutput(chunk) {
      bytes += chunk.length;
      found.add(chunk);
    },
    timeoutMs,
  });
  succeeded(read);
  await requireRows(options, table, found.sums);
  assert.deepEqual(await server.client.tasks.search({ type: 'export' }).all(), []);
  return measure(options, began, read, { bytes, rows: found.sums.rows });
}

export function requireFlat(what: keyof typeof growthMiBMax, small: Transferred, large: Transferred): void {
  assert.ok(
    large.commandMiB <= small.commandMiB + growthMiBMax[what],
    `${what}: ${large.commandMiB} MiB for ${large.bytes} bytes, ${small.commandMiB} MiB for ${small.bytes} bytes`,
  );
}
