// A process that reads answers of any HTTP server, as a client without a JSON parser would: counts their bytes, or times each of many small
// ones. Asked by peers.ts and clickhouse.ts.
import { Agent, request } from 'node:http';

export interface ReadJob {
  readonly url: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The path of the request that follows an answer is the first group of this pattern at its end or, of a short answer, in it. */
  readonly next?: string;
  /** Sent instead of `body`, one after the other: the time of each is measured. */
  readonly bodies?: readonly string[];
}

export type ReadAnswer =
  | { readonly bytes: number; readonly ms: number; readonly firstMs: number; readonly eachMs: readonly number[] }
  | { readonly error: string };

const tailBytes = 4096;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

interface Read {
  readonly bytes: number;
  readonly tail: string;
}

function read({ url, headers }: ReadJob, method: string, path: string, body: string | undefined): Promise<Read> {
  const { promise, resolve, reject } = Promise.withResolvers<Read>();
  const outgoing = request(new URL(path, url), { method, headers, agent }, (incoming) => {
    let bytes = 0;
    let tail: Buffer = Buffer.alloc(0);
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      tail = chunk.length >= tailBytes ? chunk.subarray(-tailBytes) : Buffer.concat([tail, chunk]).subarray(-tailBytes);
    });
    incoming.once('end', () => {
      if (incoming.statusCode === 200) resolve({ bytes, tail: tail.toString('latin1') });
      else reject(new Error(`${method} ${path}: ${incoming.statusCode} ${tail}`));
    });
    incoming.once('error', reject);
  });
  outgoing.once('error', reject);
  outgoing.end(body);
  return promise;
}

async function readEach(job: ReadJob, bodies: readonly string[]): Promise<ReadAnswer> {
  const startMs = performance.now();
  const eachMs: number[] = [];
  let bytes = 0;
  for (const body of bodies) {
    const sentMs = performance.now();
    bytes += (await read(job, 'POST', job.path, body)).bytes;
    eachMs.push(performance.now() - sentMs);
  }
  return { bytes, ms: performance.now() - startMs, firstMs: eachMs[0] ?? 0, eachMs };
}

async function readAll(job: ReadJob): Promise<ReadAnswer> {
  if (job.bodies) return readEach(job, job.bodies);
  const startMs = performance.now();
  let answer = await read(job, 'POST', job.path, job.body);
  const firstMs = performance.now() - startMs;
  let { bytes } = answer;
  const next = job.next === undefined ? undefined : new RegExp(job.next);
  for (let path = next?.exec(answer.tail)?.[1]; path !== undefined; path = next?.exec(answer.tail)?.[1]) {
    answer = await read(job, 'GET', path, undefined);
    bytes += answer.bytes;
  }
  return { bytes, ms: performance.now() - startMs, firstMs, eachMs: [firstMs] };
}

process.on('message', (job: ReadJob) => {
  readAll(job).then(
    (answer) => process.send?.(answer),
    (error: unknown) => process.send?.({ error: String(error) } satisfies ReadAnswer),
  );
});
