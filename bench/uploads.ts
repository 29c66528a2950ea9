// Uploads of 1 GB compared with a plain program that writes the same bytes to a file and flushes them; and their effect on other
// requests: the latency of GET of a table during uploads, and without them.
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fillStore, tableName, tablesPath } from './harness/filled_store.ts';
import { Generator as Load } from './harness/load.ts';
import type { LoadResult } from './harness/load_job.ts';
import { type Bench, compare, interleaved, median } from './harness/report.ts';
import { TabulariumServer } from './harness/server.ts';

const uploadBytes = 1_000_000_000;
const pieceBytes = 1024 * 1024;
const connections = 4;
const ratioMin = 0.75;

function* pieces(bytes: number): Generator<Uint8Array> {
  const piece = randomBytes(pieceBytes);
  for (let remaining = bytes; remaining > 0; remaining -= pieceBytes)
    yield remaining >= pieceBytes ? piece : piece.subarray(0, remaining);
}

/** Milliseconds until the response. */
async function upload(server: TabulariumServer, bytes: number, signal?: AbortSignal): Promise<number> {
  const startMs = performance.now();
  const { link, uploadId } = await server.client.uploads.create({ name: 'x.bin', bytes });
  try {
    await server.sendFile(link, bytes, Readable.from(pieces(bytes)), signal);
    return performance.now() - startMs;
  } finally {
    await server.client.uploads(uploadId).delete();
  }
}

async function measureWrite(path: string, bytes: number): Promise<number> {
  const startMs = performance.now();
  await pipeline(Readable.from(pieces(bytes)), createWriteStream(path, { flush: true }));
  const ms = performance.now() - startMs;
  await rm(path);
  return ms;
}

/** GETs for a while, with sequential uploads at the same time, or with none. */
async function measureGets(
  server: TabulariumServer,
  generator: Load,
  durationMs: number,
  bytes: number,
): Promise<LoadResult> {
  const template = { method: 'GET', path: `${tablesPath}/${tableName(0)}`, headers: server.authorization } as const;
  const job = { port: server.port, connections, template, order: 'cycle', count: 1, status: 200 } as const;
  const stop = new AbortController();
  const sending = (async () => {
    while (bytes > 0 && !stop.signal.aborted) await upload(server, bytes, stop.signal);
  })().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  const load = await generator.load({ ...job, warmupMs: 300, durationMs });
  stop.abort();
  await sending;
  return load;
}

export const bench: Bench = {
  name: 'uploads',
  claim: `An upload of 1 GB has at least ${ratioMin} of the throughput of a plain program that writes the same bytes to a file and flushes it.`,
  async run({ quick, workDirectory, print }) {
    const bytes = quick ? uploadBytes / 50 : uploadBytes;
    const durationMs = quick ? 500 : 6000;
    const rounds = quick ? 1 : 7;
    const dataDirectory = join(workDirectory, 'data');
    await fillStore(dataDirectory, 10, { inEngine: false });
    const server = await TabulariumServer.start({ dataDirectory, pinned: false });
    const generator = new Load({ pinned: false });
    try {
      const plain = () => measureWrite(join(workDirectory, 'plain'), bytes);
      const compared = await interleaved(rounds, () => upload(server, bytes), plain);
      const rateOf = (ms: number) => bytes / ms / 1000;
      const rate = compare(compared, {
        what: `an upload of ${bytes / 1e6} MB`,
        unit: 'MB/s',
        serviceValue: rateOf,
        baselineValue: rateOf,
        baseline: 'a file written and flushed',
        target: { text: `≥ ${ratioMin}`, isMet: (ratio) => ratio >= ratioMin },
      });
      print(`  ${rate.value.toFixed(0)} MB/s, ${rate.ratio?.toFixed(2)}`);
      const getsDuringUpload = await interleaved(
        rounds,
        () => measureGets(server, generator, durationMs, bytes),
        () => measureGets(server, generator, durationMs / 2, 0),
      );
      const [busy, resting] = [getsDuringUpload.service, getsDuringUpload.baseline];
      const medianOf = (all: readonly LoadResult[], latency: (result: LoadResult) => number) =>
        median(all.map(latency));
      return {
        measures: [
          rate,
          {
            what: 'GET of a table without uploads, 50th percentile',
            value: medianOf(resting, (result) => result.p50Ms),
            unit: 'ms',
          },
          { what: '- 99th percentile', value: medianOf(resting, (result) => result.p99Ms), unit: 'ms' },
          {
            what: 'GET of a table during uploads, 50th percentile',
            value: medianOf(busy, (result) => result.p50Ms),
            unit: 'ms',
          },
          { what: '- 99th percentile', value: medianOf(busy, (result) => result.p99Ms), unit: 'ms' },
        ],
        notes: [
          'An upload: from its creation to its response, digest included; the client is a process of its own on the same cores.',
          'GET: four connections, one request at a time on each.',
        ],
      };
    } finally {
      await Promise.all([server.stop(), generator.stop()]);
    }
  },
};
