// A client that reports each request as it is sent, so that it can be shown as a `curl` line, and each answer.
import { writeFile } from 'node:fs/promises';
import { type Client, createClient } from '../client/index.ts';

const requestTimeoutMs = 120_000;

export interface DemoServer {
  /** Where the server listens, for example `http://127.0.0.1:8030`. */
  readonly url: string;
  readonly token: string;
  readonly signal?: AbortSignal | undefined;
}

export interface SentRequest {
  readonly method: string;
  readonly url: string;
  /** The headers without credentials. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** The file that `body` was written to. */
  readonly bodyFile?: string | undefined;
}

export interface ReceivedAnswer {
  readonly status: number;
  readonly code: string;
  readonly result: Readonly<Record<string, unknown>>;
  /** The time from before the request until after the last byte of the response. */
  readonly wallMs: number;
}

export interface Trace {
  readonly sent: (request: SentRequest) => void;
  readonly received: (answer: ReceivedAnswer) => void;
  /** Where bodies of requests are written. */
  readonly bodyFile?: string | undefined;
}

export const clientOf = ({ url, token }: DemoServer): Client =>
  createClient({ url, token, timeoutMs: requestTimeoutMs });

export function tracedClient({ url, token }: DemoServer, trace: Trace): Client {
  return createClient({ url, token, timeoutMs: requestTimeoutMs, fetch: (to, init) => tracedFetch(trace, to, init) });
}

async function tracedFetch(trace: Trace, ...[to, init = {}]: Parameters<typeof fetch>): Promise<Response> {
  const { authorization: _token, accept: _accept, ...headers } = Object.fromEntries(new Headers(init.headers));
  const body = typeof init.body === 'string' ? init.body : undefined;
  const bodyFile = body === undefined ? undefined : trace.bodyFile;
  if (body !== undefined && bodyFile !== undefined) await writeFile(bodyFile, body);
  trace.sent({ method: init.method ?? 'GET', url: String(to), headers, body, bodyFile });
  const startedAt = performance.now();
  const response = await fetch(to, init);
  const text = await response.text();
  const { code, result } = JSON.parse(text) as Pick<ReceivedAnswer, 'code' | 'result'>;
  trace.received({ status: response.status, code, result, wallMs: performance.now() - startedAt });
  return new Response(text, response);
}

/** Quotes a bash word if necessary. */
const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** The request as a line for bash; the token is read from its file. */
export function curlLine({ method, url, headers, body, bodyFile }: SentRequest, tokenFile: string): string {
  const parts = ['curl', '-sS', '-X', method, shellWord(url)];
  parts.push('-H', `"Authorization: Bearer $(cat ${shellWord(tokenFile)})"`);
  for (const [name, value] of Object.entries(headers)) parts.push('-H', shellWord(`${name}: ${value}`));
  if (bodyFile !== undefined) parts.push('--data-binary', shellWord(`@${bodyFile}`));
  else if (body !== undefined) parts.push('--data-binary', shellWord(body));
  return parts.join(' ');
}
