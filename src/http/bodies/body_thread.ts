// The worker thread that parses and checks large bodies, one at a time (see body_threads.ts). Rows stay in the thread until the columns
// that they are for are known, and are then written to a file for the engine. Other modules do not import this file.
import { writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { serialize } from 'node:v8';
import { parentPort } from 'node:worker_threads';
import type { RowsBatch, StoredRows } from '../../engines/port/rows.ts';
import { digestOfRows, RowReaders } from '../../query/rows/row_source.ts';
import { Failure } from '../../standard/failure.ts';
import { type Check, compileCheck } from '../../standard/parameters.ts';
import type { TSchema } from '../../standard/type.ts';
import { checkedBody } from './body_text.ts';
import type { BodyWork, ReadBody, ThreadAnswer, ThreadRequest } from './body_threads.ts';

/** A smaller batch is transferred as a message. */
const storedBytesMin = 512 * 1024;
const bytesPerIndex = 8;
/** Large bodies yield to the main thread, which answers all other requests. */
const niceness = 5;
// On Linux 0 means this thread; elsewhere it means the whole process.
if (process.platform === 'linux') setPriority(0, niceness);

const readers = new RowReaders();
/** Keyed by the text of the schema; at most two for each endpoint. */
const checks = new Map<string, Check>();
let rows: readonly unknown[] = [];

function checkOf(schema: string | undefined): Check | undefined {
  if (schema === undefined) return undefined;
  const check = checks.get(schema) ?? compileCheck(JSON.parse(schema) as TSchema, 'body');
  checks.set(schema, check);
  return check;
}

function readBody({ blocks, bytes, form, schema, rowsIn, digested }: BodyWork): ReadBody {
  const content = Buffer.concat(blocks, bytes);
  const { fields, wideNumbers } = checkedBody(content, form, checkOf(schema));
  if (rowsIn === undefined) return { content, wideNumbers };
  rows = fields[rowsIn] as readonly unknown[];
  delete fields[rowsIn];
  return { fields, digest: digested ? digestOfRows(rows) : '' };
}

async function readRows({
  columns,
  version,
  file,
}: Extract<ThreadRequest, { kind: 'rows' }>): Promise<RowsBatch | StoredRows> {
  const batch = readers.readerOf(columns, version).read(rows);
  rows = [];
  const indexes = (batch.omitted ?? []).reduce((sum, { rows }) => sum + rows.length, 0);
  if (batch.json.length + bytesPerIndex * indexes < storedBytesMin) return batch;
  await writeFile(file, serialize(batch), { mode: 0o600 });
  return { file, rowCount: batch.rowCount };
}

async function handle(request: ThreadRequest): Promise<ThreadAnswer> {
  try {
    const value = request.kind === 'body' ? readBody(request.work) : await readRows(request);
    return { value };
  } catch (error) {
    rows = [];
    if (!(error instanceof Failure))
      return { fault: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    const { code, message, result } = error;
    return { failure: { code, message, result } };
  }
}

parentPort?.on('message', async (request: ThreadRequest) => {
  const answer = await handle(request);
  const content = 'value' in answer && 'content' in answer.value ? [answer.value.content.buffer as ArrayBuffer] : [];
  parentPort?.postMessage(answer, content);
});
