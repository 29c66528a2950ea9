// A REST client for tests: every response is data and none is thrown; if the connection breaks before the response is complete, it
// is `noAnswer`, because the outcome is unknown. Paths are sent exactly as given.
import { type Client, createClient, TabulariumError, type TaskRecord } from '../../../src/client/index.ts';
import { deadlineMs } from '../../deadline.ts';
import { RawHttp } from '../../raw_http.ts';

export interface Answer {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly result: Readonly<Record<string, unknown>>;
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface Request {
  readonly method: Method;
  readonly path: string;
  readonly body?: unknown;
  /** Sent unchanged instead of a JSON body. */
  readonly bytes?: string;
  /** The idempotency key. */
  readonly key?: string;
}

/** Status 0: the connection broke, or the response did not arrive in time. */
export const noAnswer: Answer = { status: 0, code: 'NO_ANSWER', message: 'the connection broke', result: {} };

export const isAcknowledged = ({ status }: Answer): boolean => status >= 200 && status < 300;

/** `pathOf('databases', 'a/b', 'tables')` is `/api/v2/databases/a%2Fb/tables`. */
export function pathOf(...segments: readonly string[]): string {
  return `/api/v2/${segments.map(encodeURIComponent).join('/')}`;
}

const answerMsMax = deadlineMs(120_000);
const readAfter = 'x-service-read-after';

/** What one caller knows of the changes of several servers: it reads through each what any of them has acknowledged to it. */
export interface Known {
  position: number;
}

export class Api {
  readonly #http: RawHttp;
  readonly #token: string;
  readonly #known: Known | undefined;
  /** For what is no part of a fault: its calls fail at once. */
  readonly client: Client;

  constructor(url: string, token: string, known?: Known) {
    this.#http = new RawHttp(url);
    this.#token = token;
    this.#known = known;
    this.client = createClient({ url, token, retryForMs: 0, timeoutMs: answerMsMax });
  }

  /** `onSent` is called when the request has left this process. */
  async send({ method, path, body, bytes, key }: Request, answerMs = answerMsMax, onSent = () => {}): Promise<Answer> {
    const text = bytes ?? (body === undefined ? undefined : JSON.stringify(body));
    const headers = {
      authorization: `Bearer ${this.#token}`,
      'x-service-idempotency-key': key,
      [readAfter]: this.#known && String(this.#known.position),
      'content-type': body === undefined || bytes !== undefined ? undefined : 'application/json',
    };
    try {
      const reply = await this.#http.send({ method, path, headers, body: text, timeoutMs: answerMs, onSent });
      if (this.#known) this.#known.position = Math.max(this.#known.position, Number(reply.headers[readAfter] ?? 0));
      return { ...(JSON.parse(reply.text) as Omit<Answer, 'status'>), status: reply.status };
    } catch {
      return noAnswer;
    }
  }

  get(path: string): Promise<Answer> {
    return this.send({ method: 'GET', path });
  }

  post(path: string, body: unknown = {}): Promise<Answer> {
    return this.send({ method: 'POST', path, body });
  }

  put(path: string, body: unknown = {}): Promise<Answer> {
    return this.send({ method: 'PUT', path, body });
  }

  patch(path: string, body: unknown): Promise<Answer> {
    return this.send({ method: 'PATCH', path, body });
  }

  delete(path: string): Promise<Answer> {
    return this.send({ method: 'DELETE', path });
  }

  tasks(): Promise<TaskRecord[]> {
    return this.client.tasks.list({ pageSize: 1000 }).all();
  }

  /**
   * Waits until every existing task has ended; returns the records. Throws if one does not end in time. A fault may strike a read that is made
   * here, which is then made again.
   */
  async endOfTasks(waitMs: number): Promise<TaskRecord[]> {
    const signal = AbortSignal.timeout(waitMs);
    const ended: TaskRecord[] = [];
    for (const { taskId } of await unlessStruck(() => this.tasks())) {
      const task = await unlessStruck(() => this.client.task(taskId, { signal }));
      // A task that fails has ended, too.
      await unlessStruck(() => task.done({ signal })).catch((error: unknown) => {
        if (task.record.endedAt === null) throw error;
      });
      ended.push(task.record);
    }
    return ended;
  }

  close(): void {
    this.#http.close();
  }
}

/** Reads again what a fault of the store let fail. */
async function unlessStruck<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof TabulariumError) || error.code !== 'INTERNAL_ERROR') throw error;
    return read();
  }
}
