// A REST client for tests: every response is data and none is thrown; if the connection breaks before the response is complete, it
// is `noAnswer`, because the outcome is unknown. Paths are sent exactly as given.
import { Agent, request } from 'node:http';
import { deadlineMs } from '../deadline.ts';

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

export class Api {
  readonly #url: URL;
  readonly #token: string;
  readonly #agent: Agent;

  constructor(url: string, token: string) {
    this.#url = new URL(url);
    this.#token = token;
    this.#agent = new Agent({ keepAlive: true, maxSockets: 64 });
  }

  /** `sent` is called when the request has left this process. */
  send({ method, path, body, bytes, key }: Request, answerMs = answerMsMax, sent = () => {}): Promise<Answer> {
    return new Promise((resolve) => {
      const text = bytes ?? (body === undefined ? undefined : JSON.stringify(body));
      const outgoing = request({
        agent: this.#agent,
        host: this.#url.hostname,
        port: this.#url.port,
        method,
        path,
        headers: {
          authorization: `Bearer ${this.#token}`,
          ...(key === undefined ? {} : { 'x-service-idempotency-key': key }),
          ...(text === undefined
            ? {}
            : {
                ...(bytes === undefined ? { 'content-type': 'application/json' } : {}),
                'content-length': Buffer.byteLength(text),
              }),
        },
        timeout: answerMs,
      });
      const broken = (): void => resolve(noAnswer);
      outgoing.on('timeout', () => outgoing.destroy());
      outgoing.on('error', broken);
      outgoing.on('response', (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', broken);
        incoming.on('aborted', broken);
        incoming.on('end', () => {
          try {
            const envelope = JSON.parse(Buffer.concat(chunks).toString()) as Omit<Answer, 'status'>;
            resolve({ ...envelope, status: incoming.statusCode ?? 0 });
          } catch {
            broken();
          }
        });
      });
      outgoing.once('finish', sent);
      outgoing.end(text);
    });
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

  /** All items of a list, page by page. */
  async all(path: string, key: string, pageSize = 1000): Promise<Record<string, unknown>[]> {
    const items: Record<string, unknown>[] = [];
    for (let token: string | undefined; ; ) {
      const more = token === undefined ? '' : `&pageToken=${token}`;
      const { status, code, result } = await this.get(`${path}?pageSize=${pageSize}${more}`);
      if (status !== 200) throw new Error(`GET ${path}: ${status} ${code}`);
      items.push(...(result[key] as Record<string, unknown>[]));
      token = result.nextPageToken as string | undefined;
      if (token === undefined) return items;
    }
  }

  /** Waits until every existing task has ended; returns the records. Throws if one does not end in time. */
  async endOfTasks(waitMs: number): Promise<Record<string, unknown>[]> {
    const deadline = Date.now() + waitMs;
    const ended: Record<string, unknown>[] = [];
    for (const task of await this.all(pathOf('tasks'), 'tasks')) {
      let record: Readonly<Record<string, unknown>> = task;
      while (!['succeeded', 'failed', 'cancelled'].includes(String(record.state))) {
        if (Date.now() > deadline) throw new Error(`a task does not end: ${JSON.stringify(record)}`);
        const answer = await this.get(`${pathOf('tasks', String(record.taskId))}?waitSeconds=2`);
        if (answer.status !== 200) throw new Error(`a task was lost: ${JSON.stringify({ record, answer })}`);
        record = answer.result;
      }
      ended.push(record);
    }
    return ended;
  }

  close(): void {
    this.#agent.destroy();
  }
}
