// The baseline of computations: DuckDB in its own process, without a server. Times are measured inside it, so that the
// channel to it costs nothing.
import { rm, stat } from 'node:fs/promises';
import { availableParallelism, totalmem } from 'node:os';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';

export type DuckdbJob =
  /** Attaches a catalog's file as the server does, under `name`, with `schema` as the default namespace. */
  | { readonly kind: 'open'; readonly file: string; readonly name: string; readonly schema: string }
  | { readonly kind: 'statements'; readonly texts: readonly string[] }
  /** `everyMs`: the time from one run to the next. */
  | { readonly kind: 'prepared'; readonly text: string; readonly values: readonly number[]; readonly everyMs: number }
  /** `options`: options of COPY, such as `FORMAT json`. The file is removed. */
  | { readonly kind: 'copy'; readonly text: string; readonly file: string; readonly options: string };

export type DuckdbAnswer =
  | { readonly kind: 'done' }
  /** Milliseconds of each. */
  | { readonly kind: 'times'; readonly ms: readonly number[] }
  | { readonly kind: 'copied'; readonly ms: number; readonly bytes: number }
  | { readonly kind: 'failed'; readonly error: string };

let connection: DuckDBConnection;

async function open(job: DuckdbJob & { kind: 'open' }): Promise<DuckdbAnswer> {
  const config = {
    threads: String(availableParallelism()),
    memory_limit: `${Math.floor(totalmem() / 2 / 2 ** 20)}MiB`,
  };
  connection = await (await DuckDBInstance.create(':memory:', config)).connect();
  await connection.run(`ATTACH '${job.file}' AS "${job.name}"`);
  await connection.run(`CREATE SCHEMA IF NOT EXISTS "${job.name}"."${job.schema}"`);
  await connection.run(`USE "${job.name}"."${job.schema}"`);
  return { kind: 'done' };
}

async function statements(texts: readonly string[]): Promise<DuckdbAnswer> {
  const ms: number[] = [];
  for (const text of texts) {
    const startMs = performance.now();
    const reader = await connection.runAndReadAll(text);
    reader.getRowsJson();
    ms.push(performance.now() - startMs);
  }
  return { kind: 'times', ms };
}

const neverChanged = new Int32Array(new SharedArrayBuffer(4));

/** Sleeps with the resolution of microseconds; that of a timer is a millisecond. */
const sleepUntil = (time: number) => void Atomics.wait(neverChanged, 0, 0, Math.max(0, time - performance.now()));

async function prepared(text: string, values: readonly number[], everyMs: number): Promise<DuckdbAnswer> {
  const statement = await connection.prepare(text);
  const ms: number[] = [];
  for (const value of values) {
    const startMs = performance.now();
    statement.bindInteger(1, value);
    const reader = await statement.runAndReadAll();
    if (reader.getRowsJson().length !== 1) throw new Error(`no row has ${value}`);
    ms.push(performance.now() - startMs);
    sleepUntil(startMs + everyMs);
  }
  return { kind: 'times', ms };
}

async function copy({ text, file, options }: DuckdbJob & { kind: 'copy' }): Promise<DuckdbAnswer> {
  const startMs = performance.now();
  await connection.run(`COPY (${text}) TO '${file}' (${options})`);
  const ms = performance.now() - startMs;
  const { size } = await stat(file);
  await rm(file);
  return { kind: 'copied', ms, bytes: size };
}

function work(job: DuckdbJob): Promise<DuckdbAnswer> {
  switch (job.kind) {
    case 'open':
      return open(job);
    case 'statements':
      return statements(job.texts);
    case 'prepared':
      return prepared(job.text, job.values, job.everyMs);
    case 'copy':
      return copy(job);
  }
}

process.on('message', (job: DuckdbJob) => {
  work(job).then(
    (answer) => process.send?.(answer),
    (error: unknown) => process.send?.({ kind: 'failed', error: String(error) } satisfies DuckdbAnswer),
  );
});
