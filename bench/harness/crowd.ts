// Clients with one connection each and one request at a time: a client that is served sends the next request immediately; one that
// is refused with 503 sends the same again exactly after `Retry-After`. Raw sockets, so that the clients cost little.
import { connect, type Socket } from 'node:net';
import type { CrowdJob, CrowdResult } from './load_job.ts';
import { requestBytes } from './request_bytes.ts';

const receiveBytes = 16 * 1024;
const refusedStatus = 503;
/** The time limit for the requests in flight at the end. */
const drainMs = 20_000;
const connectEveryMs = 1;

interface ReadAnswer {
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
}

/** Reads one response after another. */
class AnswerReader {
  #text = '';

  /** Undefined until the response is complete. */
  take(chunk: Buffer): ReadAnswer | undefined {
    const text = this.#text === '' ? chunk.toString('latin1') : this.#text + chunk.toString('latin1');
    const end = text.indexOf('\r\n\r\n');
    if (end >= 0) {
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1]);
      if (Number.isNaN(length)) throw new Error(`an answer without Content-Length: ${text.slice(0, end)}`);
      if (text.length >= end + 4 + length) {
        this.#text = '';
        const after = /\r\nretry-after: *(\d+)/i.exec(text.slice(0, end))?.[1];
        const status = Number(text.slice(9, 12));
        return { status, retryAfterSeconds: after === undefined ? undefined : Number(after) };
      }
    }
    this.#text = text;
    return undefined;
  }
}

interface Samples {
  readonly admitted: number[];
  readonly fromFirst: number[];
}

/** The counts of all clients so far. */
class ResponseReader {
  from = Number.POSITIVE_INFINITY;
  until = Number.POSITIVE_INFINITY;
  readonly samples: Samples = { admitted: [], fromFirst: [] };
  refused = 0;
  acknowledged = 0;
  refusedForMsMax = 0;

  begin(warmupMs: number, durationMs: number): void {
    this.from = performance.now() + warmupMs;
    this.until = this.from + durationMs;
  }

  isMeasured(time: number): boolean {
    return time >= this.from && time < this.until;
  }
}

class Client {
  readonly #requests: readonly Buffer[];
  readonly #job: CrowdJob;
  readonly #course: ResponseReader;
  readonly #answers = new AnswerReader();
  readonly #failed: (error: unknown) => void;
  readonly #socket: Socket;
  #next: number;
  #firstAt = 0;
  #sentAt = 0;
  #refusals = 0;
  #timer: NodeJS.Timeout | undefined;
  served = 0;
  isAnswered = false;
  inFlight = false;

  constructor(
    job: CrowdJob,
    course: ResponseReader,
    { requests, first, failed }: { requests: readonly Buffer[]; first: number; failed: (error: unknown) => void },
  ) {
    this.#job = job;
    this.#course = course;
    this.#requests = requests;
    this.#next = first;
    this.#failed = failed;
    const buffer = Buffer.alloc(receiveBytes);
    const callback = (size: number): boolean => this.#receive(buffer.subarray(0, size));
    this.#socket = connect({ port: job.port, host: '127.0.0.1', noDelay: true, onread: { buffer, callback } });
    this.#socket.on('connect', () => this.#begin());
    this.#socket.on('error', failed);
  }

  /** How long the current request has been refused. */
  refusedForMs(now: number): number {
    return this.#refusals === 0 ? 0 : now - this.#firstAt;
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#socket.destroy();
  }

  #begin(): void {
    this.#next++;
    this.#refusals = 0;
    this.#firstAt = performance.now();
    this.#send();
  }

  #send(): void {
    this.#sentAt = performance.now();
    if (this.#sentAt >= this.#course.until) return;
    this.inFlight = true;
    this.#socket.write(this.#requests[this.#next % this.#requests.length] as Buffer);
  }

  #receive(chunk: Buffer): boolean {
    try {
      const answer = this.#answers.take(chunk);
      if (answer) this.#answered(answer);
    } catch (error) {
      this.#failed(error);
    }
    return true;
  }

  #answered({ status, retryAfterSeconds }: ReadAnswer): void {
    const now = performance.now();
    const course = this.#course;
    this.inFlight = false;
    this.isAnswered = true;
    if (status === this.#job.status) {
      course.acknowledged++;
      this.served++;
      if (course.isMeasured(now)) {
        course.samples.admitted.push(now - this.#sentAt);
        course.samples.fromFirst.push(now - this.#firstAt);
      }
      course.refusedForMsMax = Math.max(course.refusedForMsMax, this.refusedForMs(now));
      this.#begin();
      return;
    }
    if (status !== refusedStatus || retryAfterSeconds === undefined) throw new Error(`answered with ${status}`);
    this.#refusals++;
    if (course.isMeasured(now)) course.refused++;
    this.#timer = setTimeout(() => this.#send(), retryAfterSeconds * 1000);
  }
}

export async function crowd(job: CrowdJob): Promise<CrowdResult> {
  const { connections, authorizations, template, warmupMs, durationMs } = job;
  const requests = authorizations.map((authorization) =>
    (template.bodies as readonly string[]).map((_, n) =>
      requestBytes({ ...template, headers: { ...template.headers, Authorization: authorization } }, n),
    ),
  );
  const course = new ResponseReader();
  const connectedAt = performance.now();
  const { promise: failure, reject: failed } = Promise.withResolvers<never>();
  const clients: Client[] = [];
  try {
    for (let i = 0; i < connections; i++) {
      const crowdRequests = requests[i % requests.length] as readonly Buffer[];
      clients.push(new Client(job, course, { requests: crowdRequests, first: i, failed }));
      if (i % 20 === 19) await Promise.race([failure, after(connectEveryMs)]);
    }
    while (clients.some(({ isAnswered }) => !isAnswered)) await Promise.race([failure, after(20)]);
    const firstAnswersMs = performance.now() - connectedAt;
    course.begin(warmupMs, durationMs);
    await Promise.race([failure, after(warmupMs)]);
    const startUsage = process.cpuUsage();
    await Promise.race([failure, after(course.until - performance.now())]);
    const { user, system } = process.cpuUsage(startUsage);
    const now = performance.now();
    const stillRefusedMs = Math.max(...clients.map((client) => client.refusedForMs(now)));
    const deadline = now + drainMs;
    while (clients.some((client) => client.inFlight) && performance.now() < deadline) await after(20);
    const { admitted, fromFirst } = course.samples;
    return {
      served: admitted.length,
      refused: course.refused,
      perSecond: (admitted.length / durationMs) * 1000,
      p50Ms: quantile(admitted, 0.5),
      p99Ms: quantile(admitted, 0.99),
      firstP50Ms: quantile(fromFirst, 0.5),
      firstP99Ms: quantile(fromFirst, 0.99),
      refusedForMsMax: Math.max(course.refusedForMsMax, stillRefusedMs),
      firstAnswersMs,
      neverServed: clients.filter((client) => client.served === 0).length,
      acknowledged: course.acknowledged,
      cut: clients.filter((client) => client.inFlight).length,
      clientShare: (user + system) / 1000 / durationMs,
    };
  } finally {
    for (const client of clients) client.end();
  }
}

const after = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, Math.max(0, ms)));

function quantile(samples: number[], share: number): number {
  samples.sort((a, b) => a - b);
  return samples[Math.min(samples.length - 1, Math.floor(samples.length * share))] ?? 0;
}
