// Exports are converted in threads: the main thread spends little, its memory is bounded by the rows in flight, and a thread that needs too
// much memory, dies or is too slow ends its export alone, with a declared code and no file.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, afterEach, before, test } from 'node:test';
import { ConversionThreads } from '../../../../src/engines/clickhouse/export/conversion_threads.ts';
import { exportRows } from '../../../../src/engines/clickhouse/export/export_rows.ts';
import { wasLost } from '../../../../src/engines/engine_lost.ts';
import type { ExportFormat } from '../../../../src/engines/port/export.ts';
import { Failure } from '../../../../src/standard/failure.ts';
import { failureOf } from '../../../conformance/engine/engine_world.ts';
import { deadlineMs, eventually, spentMs } from '../../../deadline.ts';

const MiB = 1024 * 1024;
const ndjson: ExportFormat = { kind: 'ndjson', compression: 'none' };
const parquet: ExportFormat = { kind: 'parquet', compression: 'snappy' };

let spool: string;
let exports = 0;
before(() => {
  spool = mkdtempSync(join(tmpdir(), 'tabularium-threads-'));
});
after(() => rmSync(spool, { recursive: true }));
afterEach(() => {
  for (const name of readdirSync(spool)) rmSync(join(spool, name), { recursive: true });
});

interface Run {
  readonly principalId?: string;
  readonly format?: ExportFormat;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

function run(
  threads: ConversionThreads,
  stream: Readable,
  { principalId, format = ndjson, signal, timeoutMs }: Run = {},
) {
  const options = {
    principalId,
    into: { format },
    resultPath: join(spool, String(exports++)),
    rowsMax: undefined,
    signal: signal ?? new AbortController().signal,
    timeoutMs: timeoutMs ?? deadlineMs(20_000),
  };
  return exportRows(async () => stream, options, threads);
}

/** Rows as a server streams them. */
const streamOf = (rows: Iterable<string>, type = 'String'): Readable =>
  Readable.from(
    (function* () {
      yield Buffer.from(`["v"],\n[${JSON.stringify(type)}]`);
      for (const row of rows) yield Buffer.from(`,\n[${row}]`);
      yield Buffer.from('\n;');
    })(),
  );

const threadWith = (text: string) => new URL(`data:text/javascript,${encodeURIComponent(text)}`);
const onMessage = (work: string) =>
  threadWith(`import { parentPort } from 'node:worker_threads'; parentPort.on('message', (request) => { ${work} });`);

/** A stream of rows without an end, and how many bytes were read from it. */
function endless() {
  const read = { bytes: 0 };
  const row = Buffer.from(`,\n["${'x'.repeat(64 * 1024)}"]`);
  const stream = Readable.from(
    (function* () {
      yield Buffer.from('["v"],\n["String"]');
      for (;;) {
        read.bytes += row.length;
        yield row;
      }
    })(),
    { highWaterMark: 1 },
  );
  return { read, stream };
}

const nothingRemains = () => assert.deepEqual(readdirSync(spool), []);

test('the main thread spends a small part of the processor time of an export', async () => {
  const threads = new ConversionThreads();
  const rows = (count: number) => Array.from({ length: count }, (_, i) => `"${i} ${'é'.repeat(i % 50)}"`);
  const warm = await run(threads, streamOf(rows(10)), { format: parquet });
  assert.equal(warm.rowCount, 10);
  // In chunks as large as those of a socket: the stream of a test costs the main thread more than that of a server.
  const text = `["v"],\n["String"],\n${rows(200_000)
    .map((row) => `[${row}]`)
    .join(',\n')}\n;`;
  const bytes = Buffer.from(text);
  const chunks = Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, i) =>
    bytes.subarray(i * 65_536, (i + 1) * 65_536),
  );
  const [allBefore, mainBefore] = [process.cpuUsage(), process.threadCpuUsage()];
  const { rowCount } = await run(threads, Readable.from(chunks), { format: parquet });
  const [all, main] = [process.cpuUsage(allBefore), process.threadCpuUsage(mainBefore)];
  assert.equal(rowCount, 200_000);
  const [allMs, mainMs] = [all.user + all.system, main.user + main.system].map((us) => us / 1000);
  assert.ok((mainMs ?? 0) < (allMs ?? 0) / 4, `${mainMs} ms of ${allMs} ms`);
});

test('a thread is used again, and another one after it has ended', async () => {
  const threads = new ConversionThreads({ idleMs: spentMs(50) });
  for (const value of ['"a"', '"b"']) {
    const { files } = await run(threads, streamOf([value]));
    assert.equal(readFileSync(join(files?.directory ?? '', 'part-00000.ndjson'), 'utf8'), `{"v":${value}}\n`);
  }
  await new Promise((resolve) => setTimeout(resolve, spentMs(200)));
  assert.equal((await run(threads, streamOf(['"c"']))).rowCount, 1);
});

test('rows that need more memory than a thread may have end their export alone', async () => {
  const threads = new ConversionThreads({ heapBytesMax: 24 * MiB });
  const numbers = `[${'1.5,'.repeat(4_000_000)}1.5]`;
  const failing = failureOf(run(threads, streamOf([numbers], 'Array(Float64)'), { format: parquet }));
  const other = run(threads, streamOf(['"a"']));
  const failure = await failing;
  assert.equal(failure.code, 'MEMORY_LIMIT_EXCEEDED', failure.message);
  assert.equal((await other).rowCount, 1);
  assert.deepEqual(readdirSync(spool).length, 1);
  assert.equal((await run(threads, streamOf(['"a"']), { format: parquet })).rowCount, 1);
});

test('a row without an end is refused', async () => {
  const { read, stream } = endless();
  const row = Readable.from(
    (async function* () {
      yield Buffer.from('["v"],\n["String"],\n["');
      for await (const chunk of stream) yield (chunk as Buffer).subarray(2);
    })(),
  );
  const failure = await failureOf(run(new ConversionThreads(), row));
  assert.equal(failure.code, 'MEMORY_LIMIT_EXCEEDED', failure.message);
  assert.ok(read.bytes < 128 * MiB, `${read.bytes} bytes`);
  nothingRemains();
});

test('a thread that ends is a failure of the warehouse, and the statement can be read again', async () => {
  for (const ending of ['process.exit(1)', 'process.exit(0)']) {
    const threads = new ConversionThreads({ script: onMessage(ending) });
    await assert.rejects(run(threads, streamOf(['"a"'])), (error) => {
      assert.ok(error instanceof Failure);
      assert.deepEqual([error.code, error.outcome], ['WAREHOUSE_FAILED', 'notApplied']);
      return wasLost(error);
    });
    nothingRemains();
  }
});

test('a thread that falls behind stops the stream; it ends when it is cancelled or too late', async () => {
  const stuck = onMessage(`if (request.kind === 'rows') for (;;);`);
  for (const ends of ['cancelled', 'too late']) {
    const threads = new ConversionThreads({ script: stuck });
    const { read, stream } = endless();
    const canceller = new AbortController();
    const timeoutMs = ends === 'cancelled' ? deadlineMs(20_000) : spentMs(500);
    const running = failureOf(run(threads, stream, { signal: canceller.signal, timeoutMs }));
    let last = -1;
    await eventually('the stream is not read on', async () => {
      const isStill = read.bytes > MiB && read.bytes === last;
      last = read.bytes;
      await new Promise((resolve) => setTimeout(resolve, spentMs(30)));
      return isStill;
    });
    if (ends === 'cancelled') canceller.abort();
    assert.equal((await running).code, ends === 'cancelled' ? 'STATEMENT_CANCELLED' : 'STATEMENT_TIMEOUT');
    assert.ok(read.bytes < 4 * MiB, `${read.bytes} bytes`);
    assert.ok(stream.destroyed);
    nothingRemains();
  }
});

test('exports wait for a thread, in their order, as long as their time limit allows', async () => {
  const threads = new ConversionThreads({ threadsMax: 1 });
  const first = new AbortController();
  const running = failureOf(run(threads, endless().stream, { signal: first.signal }));
  await eventually('the first export has begun', () => existsSync(join(spool, `${exports - 1}.files.incomplete`)));
  const cancelled = new AbortController();
  const waiting = failureOf(run(threads, streamOf(['"a"']), { signal: cancelled.signal }));
  assert.equal(
    (await failureOf(run(threads, streamOf(['"a"']), { timeoutMs: spentMs(50) }))).code,
    'STATEMENT_TIMEOUT',
  );
  const next = run(threads, streamOf(['"b"']));
  cancelled.abort();
  assert.equal((await waiting).code, 'STATEMENT_CANCELLED');
  first.abort();
  assert.equal((await running).code, 'STATEMENT_CANCELLED');
  assert.equal((await next).rowCount, 1);
  assert.equal((await run(threads, streamOf(['"c"']))).rowCount, 1);
});

test('long exports of one principal do not keep those of others waiting', async () => {
  const threads = new ConversionThreads({ threadsMax: 1 });
  const first = new AbortController();
  const running = failureOf(run(threads, endless().stream, { principalId: 'many', signal: first.signal }));
  await eventually('the first export has begun', () => existsSync(join(spool, `${exports - 1}.files.incomplete`)));
  const waiting = run(threads, streamOf(['"a"']), { principalId: 'many' });
  assert.equal((await run(threads, streamOf(['"b"']), { principalId: 'few' })).rowCount, 1);
  assert.ok(existsSync(join(spool, `${exports - 3}.files.incomplete`)), 'the first has not ended');
  first.abort();
  assert.equal((await running).code, 'STATEMENT_CANCELLED');
  assert.equal((await waiting).rowCount, 1);
});
