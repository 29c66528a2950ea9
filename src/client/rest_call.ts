// A minimal REST client for the commands and the demo: sends a call, waits for its task, and explains failures. It depends only on the
// REST standard, as any client does, and also runs in browsers.
import { sleep } from './transport.ts';

const requestTimeoutMs = 120_000;
const taskWaitSecondsDefault = 30;
const taskTimeoutMsDefault = 600_000;
const busyAttemptsMax = 6;
const busyWaitDefaultMs = 1_000;
const busyWaitMsMax = 30_000;

export interface RestServer {
  /** Where the server listens, for example `http://127.0.0.1:8030`. */
  readonly url: string;
  readonly token: string;
  readonly signal?: AbortSignal | undefined;
}

export interface RestCall {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly mediaType?: 'application/json' | 'application/sql';
  readonly body?: string;
  /** Absolute path of a file that holds `body`: the `curl` line then sends that file. */
  readonly bodyFile?: string | undefined;
  /** Makes a POST safe to retry (rest-standard B6). */
  readonly idempotencyKey?: string;
}

/** How a call waits for the task in a 202 response. */
export interface TaskWait {
  readonly timeoutMs?: number;
  readonly pollSeconds?: number;
  /** Called with each record of the task, including the last one. */
  readonly onRecord?: (task: RestResult) => void;
}

export type RestResult = Readonly<Record<string, unknown>>;

export interface RestAnswer {
  readonly status: number;
  readonly result: RestResult;
  /** The time from before the request until after the last byte of the response. */
  readonly wallMs: number;
}

const adviceByStatus: Readonly<Record<number, string>> = {
  400: 'the request is not valid for the state of the server: correct it as the message says, then send it again',
  401: 'the token is not valid: use the one in the file root.token of the data directory of this server',
  403: 'the token is valid, but its principal lacks a privilege: use the token of one that has it, such as root',
  404: 'the object or API does not exist: check the URL, and that it is the URL of a Tabularium server of this version',
  405: 'the method is not supported by this API: see /openapi.json of the server',
  406: 'the server responds in application/json only',
  415: 'the media type of the body is not accepted by this API',
  500: 'an internal error of the server: search its log for the errorId, then retry',
  503: 'the server cannot process the request at the moment: retry later',
};

/** A call that failed: a code other than "0", a failed task, or no response. */
export class RestFailure extends Error {
  readonly call: RestCall;
  readonly status: number;
  readonly code: string;
  readonly advice: string;
  readonly result: RestResult;

  constructor(call: RestCall, status: number, code: string, message: string, result: RestResult, advice?: string) {
    super(message);
    this.name = 'RestFailure';
    this.call = call;
    this.status = status;
    this.code = code;
    this.result = result;
    this.advice = advice ?? adviceByStatus[status] ?? 'the response is not from a Tabularium server: check the URL';
  }
}

const isObject = (value: unknown): value is RestResult =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

function headersOf(call: RestCall): Record<string, string> {
  const headers: Record<string, string> = {};
  if (call.mediaType !== undefined) headers['Content-Type'] = call.mediaType;
  if (call.idempotencyKey !== undefined) headers['x-service-idempotency-key'] = call.idempotencyKey;
  return headers;
}

function noAnswerFailure(server: RestServer, call: RestCall, error: unknown): unknown {
  if (server.signal?.aborted) return server.signal.reason;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const message = cause instanceof Error ? cause.message || cause.name : String(cause);
  const advice = `check that the server runs and is reachable at ${server.url}`;
  return new RestFailure(call, 0, 'NO_ANSWER', `${call.method} ${call.path}: ${message}`, {}, advice);
}

async function exchange(server: RestServer, call: RestCall): Promise<{ response: Response; text: string }> {
  const deadline = AbortSignal.timeout(requestTimeoutMs);
  try {
    const response = await fetch(new URL(call.path, server.url), {
      method: call.method,
      headers: { Authorization: `Bearer ${server.token}`, Accept: 'application/json', ...headersOf(call) },
      ...(call.body === undefined ? {} : { body: call.body }),
      signal: server.signal === undefined ? deadline : AbortSignal.any([server.signal, deadline]),
    });
    return { response, text: await response.text() };
  } catch (error) {
    throw noAnswerFailure(server, call, error);
  }
}

function resultOf(call: RestCall, status: number, text: string): RestResult {
  let envelope: unknown;
  try {
    envelope = JSON.parse(text);
  } catch {
    envelope = undefined;
  }
  if (!isObject(envelope) || typeof envelope.code !== 'string') {
    const message = `${call.method} ${call.path}: status ${status} without the envelope {code, message, result}`;
    throw new RestFailure(call, status, 'NO_ENVELOPE', message, {}, 'check that a Tabularium server is at this URL');
  }
  const result = isObject(envelope.result) ? envelope.result : {};
  if (envelope.code !== '0') throw new RestFailure(call, status, envelope.code, textOf(envelope.message), result);
  return result;
}

function busyWaitMs(response: Response): number {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, busyWaitMsMax) : busyWaitDefaultMs;
}

async function waitForTask(server: RestServer, call: RestCall, task: RestResult, wait: TaskWait): Promise<RestResult> {
  const { timeoutMs = taskTimeoutMsDefault, pollSeconds = taskWaitSecondsDefault, onRecord } = wait;
  const giveUpAt = performance.now() + timeoutMs;
  let record = task;
  while (performance.now() < giveUpAt) {
    onRecord?.(record);
    if (record.state === 'succeeded') return isObject(record.result) ? record.result : {};
    if (record.state === 'failed' || record.state === 'cancelled') {
      const error = isObject(record.error) ? record.error : {};
      const message = textOf(error.message ?? `the task ended ${record.state}`);
      throw new RestFailure(call, 200, textOf(error.code ?? 'TASK_FAILED'), message, record, `see ${textOf(task.uri)}`);
    }
    const path = `${textOf(task.uri)}?waitSeconds=${pollSeconds}`;
    record = (await sendRest(server, { method: 'GET', path })).result;
  }
  const message = `the task is not finished after ${timeoutMs / 1000} s`;
  throw new RestFailure(call, 200, 'TASK_UNFINISHED', message, record, `poll ${textOf(task.uri)}`);
}

/**
 * Sends the call. Retries a 503 after its Retry-After, and after a 202 waits until the task has ended.
 * @throws RestFailure unless the call succeeds; the reason of the signal when it is aborted.
 */
export async function sendRest(server: RestServer, call: RestCall, wait: TaskWait = {}): Promise<RestAnswer> {
  const startedAt = performance.now();
  for (let attempt = 1; ; attempt++) {
    const { response, text } = await exchange(server, call);
    if (response.status === 503 && attempt < busyAttemptsMax) {
      await sleep(busyWaitMs(response), server.signal);
      continue;
    }
    const first = resultOf(call, response.status, text);
    const result = response.status === 202 ? await waitForTask(server, call, first, wait) : first;
    return { status: response.status, result, wallMs: performance.now() - startedAt };
  }
}

/** Quotes a bash word if necessary. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** The call as a line for bash; the token is read from its file. */
export function curlLine(server: RestServer, tokenFile: string, call: RestCall): string {
  const parts = ['curl', '-sS', '-X', call.method, shellWord(new URL(call.path, server.url).href)];
  parts.push('-H', `"Authorization: Bearer $(cat ${shellWord(tokenFile)})"`);
  for (const [name, value] of Object.entries(headersOf(call))) parts.push('-H', shellWord(`${name}: ${value}`));
  if (call.bodyFile !== undefined) parts.push('--data-binary', shellWord(`@${call.bodyFile}`));
  else if (call.body !== undefined) parts.push('--data-binary', shellWord(call.body));
  return parts.join(' ');
}
