// The load generator's process: raw sockets, prepared requests; of the responses only the status and the length are read,
// so that it is faster than the servers it measures. One request at a time on each connection. Controlled by load.ts.
import { connect, type Socket } from 'node:net';
import { crowd } from './crowd.ts';
import type { Job, JobAnswer, JobResult, LoadJob, LoadResult, PagesJob, PagesResult } from './load_job.ts';
import { mixed } from './mixed.ts';
import { requestBytes } from './request_bytes.ts';
import { ResponseReader } from './response_reader.ts';

const receiveBytes = 256 * 1024;
const samplesMax = 4_000_000;

/** Reproducible random numbers: mulberry32. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The counts of the responses to requests that were sent within a period. */
class Tally {
  readonly #from: number;
  readonly #samples: Float64Array;
  #requests = 0;
  #answered = 0;
  #bytes = 0;
  #last: number;

  constructor(from: number, durationMs: number) {
    this.#from = from;
    this.#last = from;
    this.#samples = new Float64Array(Math.min(samplesMax, 200_000 * Math.ceil(durationMs / 1000)));
  }

  get isEmpty(): boolean {
    return this.#requests === 0;
  }

  add(sentAt: number, bytes: number): void {
    const now = performance.now();
    this.#answered++;
    // Requests that were sent in the warm-up do not count, even if their responses arrive after it.
    if (sentAt < this.#from) return;
    if (this.#requests < this.#samples.length) this.#samples[this.#requests] = now - sentAt;
    this.#requests++;
    this.#bytes += bytes;
    this.#last = now;
  }

  result(next: number): LoadResult {
    const elapsedMs = this.#last - this.#from;
    const sorted = this.#samples.subarray(0, Math.min(this.#requests, this.#samples.length)).sort();
    const quantile = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return {
      requests: this.#requests,
      answered: this.#answered,
      bytes: this.#bytes,
      elapsedMs,
      perSecond: (this.#requests / elapsedMs) * 1000,
      megabytesPerSecond: this.#bytes / elapsedMs / 1000,
      p50Ms: quantile(0.5),
      p99Ms: quantile(0.99),
      next,
    };
  }
}

/** Returns the requests of a job, in its order; undefined when there are no more. */
function requestsOf(job: LoadJob): { readonly take: () => Buffer | undefined; readonly next: () => number } {
  const { order, count } = job;
  const requests: Buffer[] = [];
  if (order !== 'once') for (let n = 0; n < count; n++) requests.push(requestBytes(job.template, n));
  const random = randomNumbers(job.seed ?? 1);
  let next = job.first ?? 0;
  const take = (): Buffer | undefined => {
    if (order === 'random') return requests[Math.floor(random() * count)];
    if (order === 'cycle') return requests[next++ % count];
    return next < count ? requestBytes(job.template, next++) : undefined;
  };
  return { take, next: () => next };
}

function load(job: LoadJob): Promise<LoadResult> {
  const { take, next } = requestsOf(job);
  const from = performance.now() + job.warmupMs;
  const until = from + job.durationMs;
  const tally = new Tally(from, job.durationMs);
  let open = job.connections;
  const { promise, resolve, reject } = Promise.withResolvers<LoadResult>();
  const connection = () => {
    const reader = new ResponseReader(job.status);
    let sentAt = 0;
    const send = () => {
      // Where a request takes longer than the whole period, the first one after the warm-up is measured.
      const request = performance.now() < until || tally.isEmpty ? take() : undefined;
      if (request === undefined) {
        socket.end();
        if (--open === 0) resolve(tally.result(next()));
        return;
      }
      sentAt = performance.now();
      socket.write(request);
    };
    const receive = (size: number, buffer: Uint8Array): boolean => {
      try {
        const bytes = reader.take(Buffer.from(buffer.buffer, buffer.byteOffset, size));
        if (bytes === undefined) return true;
        tally.add(sentAt, bytes);
        send();
      } catch (error) {
        socket.destroy();
        reject(error);
      }
      return true;
    };
    const onread = { buffer: Buffer.alloc(receiveBytes), callback: receive };
    const socket: Socket = connect({ port: job.port, host: '127.0.0.1', noDelay: true, onread });
    socket.on('connect', send);
    socket.on('error', reject);
  };
  for (let i = 0; i < job.connections; i++) connection();
  // Never sleeps while it measures: waking it would cost the slower of two servers more than the faster one.
  const stayAwake = () => {
    if (open > 0) setImmediate(stayAwake);
  };
  if (job.awake) stayAwake();
  return promise;
}

/** One connection, one request at a time: the sizes of head and body of the response, and its last bytes. */
class Exchanges {
  readonly #socket: Socket;
  readonly #job: PagesJob;
  #reader = new ResponseReader(200);
  #tail = '';
  #done: ((bytes: number) => void) | undefined;
  #failed: ((error: unknown) => void) | undefined;

  constructor(job: PagesJob) {
    this.#job = job;
    const buffer = Buffer.alloc(receiveBytes);
    const callback = (size: number): boolean => this.#receive(buffer.subarray(0, size));
    this.#socket = connect({ port: job.port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } });
    this.#socket.on('error', (error) => this.#failed?.(error));
  }

  async run(method: 'GET' | 'POST', path: string, body?: string): Promise<{ bytes: number; tail: string }> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#done = resolve;
    this.#failed = reject;
    this.#reader = new ResponseReader(200);
    const headers = { Authorization: `Bearer ${this.#job.token}`, 'Content-Type': 'application/json' };
    const template = { method, path, headers, ...(body === undefined ? {} : { bodies: [body] }) };
    this.#socket.write(requestBytes(template, 0));
    return { bytes: await promise, tail: this.#tail };
  }

  end(): void {
    this.#socket.end();
  }

  #receive(chunk: Buffer): boolean {
    try {
      const bytes = this.#reader.take(chunk);
      if (bytes === undefined) return true;
      // The relevant fields of a result are at its end; they must be in the last chunk.
      this.#tail = chunk.toString('latin1', Math.max(0, chunk.length - tailBytes));
      this.#done?.(bytes);
    } catch (error) {
      this.#failed?.(error);
    }
    return true;
  }
}

const tailBytes = 4096;

/** The path of the next page: in the tail of every response, unless the page is the last one. */
const nextPageIn = (tail: string): string | undefined => /"nextPage":"([^"]+)"/.exec(tail)?.[1];

async function pages(job: PagesJob): Promise<PagesResult> {
  const exchanges = new Exchanges(job);
  try {
    const startMs = performance.now();
    const first = await exchanges.run('POST', job.path, job.body);
    const firstPageMs = performance.now() - startMs;
    let { bytes } = first;
    let count = 1;
    for (let next = nextPageIn(first.tail); next !== undefined; count++) {
      const page = await exchanges.run('GET', next);
      bytes += page.bytes;
      next = nextPageIn(page.tail);
    }
    return { pages: count, bytes, elapsedMs: performance.now() - startMs, firstPageMs };
  } finally {
    exchanges.end();
  }
}

function run(job: Job): Promise<JobResult> {
  if (job.kind === 'load') return load(job);
  if (job.kind === 'mixed') return mixed(job);
  return job.kind === 'pages' ? pages(job) : crowd(job);
}

process.on('message', (job: Job) => {
  run(job).then(
    (result) => process.send?.({ result } satisfies JobAnswer),
    (error: unknown) => process.send?.({ error: String(error) } satisfies JobAnswer),
  );
});
