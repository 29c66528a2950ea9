// The thread that parses and checks large bodies, one at a time (body_threads.ts). Rows stay here until it is known which columns they
// are for, and leave as a file for the engine. Nothing here is imported by others.
import { writeFile } from 'node:fs/promises';
import { serialize } from 'node:v8';
import { parentPort } from 'node:worker_threads';
import type { RowsBatch, StoredRows } from '../../engines/engine.ts';
import { digestOfRows, RowReaders } from '../../query/rows/row_source.ts';
import { Failure } from '../../standard/failure.ts';
import { type Check, compileCheck } from '../../standard/parameters.ts';
import type { TSchema } from '../../standard/type.ts';
import { checkedBody } from './body_text.ts';
import type { Asked, BodyWork, ReadBody, ThreadAnswer } from './body_threads.ts';

/** A batch of fewer bytes is handed over as it is. */
const storedBytesMin = 512 * 1024;
const bytesPerIndex = 8;

const readers = new RowReaders();
/** By the text of the schema; there are as many as endpoints. */
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

async function readRows({ columns, version, file }: Extract<Asked, { kind: 'rows' }>): Promise<RowsBatch | StoredRows> {
  const batch = readers.of(columns, version).read(rows);
  rows = [];
  const indexes = (batch.omitted ?? []).reduce((sum, one) => sum + one.rows.length, 0);
  if (batch.json.length + bytesPerIndex * indexes < storedBytesMin) return batch;
  await writeFile(file, serialize(batch), { mode: 0o600 });
  return { file, rowCount: batch.rowCount };
}

async function answered(asked: Asked): Promise<ThreadAnswer> {
  try {
    const value = asked.kind === 'body' ? readBody(asked.work) : await readRows(asked);
    return { value };
  } catch (error) {
    rows = [];
    if (!(error instanceof Failure))
      return { fault: error instanceof Error ? (error.stack ?? error.message) : String(error) };
    const { code, message, result } = error;
    return { failure: { code, message, result } };
  }
}

parentPort?.on('message', async (asked: Asked) => {
  const answer = await answered(asked);
  const content = 'value' in answer && 'content' in answer.value ? [answer.value.content.buffer as ArrayBuffer] : [];
  parentPort?.postMessage(answer, content);
});
