// A server of a cluster over its HTTP interface. A response counts only if it is complete; a call that is aborted or too late is also ended
// on the server.
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type * as undici from 'undici';
import { lazyPackage } from '../../../model/lazy_package.ts';
import type { HostAllowlist } from '../../../outbound/host_allowlist.ts';
import type { Failure } from '../../../standard/failure.ts';
import { cancelledFailure, lateFailure, timeoutFailure } from './clickhouse_error.ts';
import { connectorOf } from './receive_buffers.ts';
import { SentCall } from './sent_call.ts';
import type { ClickHouseServer, ServerCall } from './server.ts';
import { settingsFor } from './server_settings.ts';

export interface HttpServerOptions {
  readonly name: string;
  readonly url: string;
  /** By which the statements are found on the server; absent: none. */
  readonly comment?: string;
  readonly credentials: () => Promise<{ readonly user: string; readonly password: string }>;
  /** The number of connections. */
  readonly connectionsMax?: number;
  /** The hosts that may be connected to; absent: any. */
  readonly hosts?: HostAllowlist | undefined;
}

interface Dispatch {
  readonly queryId: string;
  readonly settings: ReadonlyMap<string, string>;
  readonly sent: SentCall;
  /** The failure if the server ends the call because of its time limit. */
  readonly exceeded: Failure;
}

const loadUndici = lazyPackage<typeof undici>('undici');

/** How long a call may take longer on the server than its time limit, before its connection is given up. */
const graceMs = 3000;
const connectTimeoutMs = 5000;
/** Longer parameters are sent in the body. */
const uriCharactersMax = 16_384;
const versionMin = [24, 8] as const;
export const versionMinText = versionMin.join('.');

export class HttpServer implements ClickHouseServer {
  readonly name: string;
  readonly #options: HttpServerOptions;
  readonly #pool: undici.Pool;
  #version = '';
  #settings: ReadonlyMap<string, string> | undefined;
  #probing: Promise<ReadonlyMap<string, string>> | undefined;
  readonly #inFlight = new Set<SentCall>();

  constructor(options: HttpServerOptions) {
    this.name = options.name;
    this.#options = options;
    const { Pool, buildConnector } = loadUndici();
    this.#pool = new Pool(options.url, {
      connections: options.connectionsMax ?? 64,
      connect: connectorOf(buildConnector, {
        timeout: connectTimeoutMs,
        ...(options.hosts ? { lookup: options.hosts.lookupFor(new URL(options.url)) } : {}),
      }),
      // Each call has its own deadline.
      headersTimeout: 0,
      bodyTimeout: 0,
      pipelining: 1,
    });
  }

  get version(): string {
    return this.#version;
  }

  /** Asks for the version and the settings that the server has. Also done before the first call, and after a connection was lost. */
  async probe(options: { readonly timeoutMs: number; readonly signal?: AbortSignal | undefined }): Promise<void> {
    this.#settings = undefined;
    await this.#known(options);
  }

  async text(call: ServerCall): Promise<string> {
    const settings = { ...call.settings, wait_end_of_query: 1 };
    const chunks: Buffer[] = [];
    for await (const chunk of await this.stream({ ...call, settings })) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString();
  }

  async rows<Row extends object>(call: ServerCall): Promise<Row[]> {
    const settings = { ...call.settings, output_format_json_quote_64bit_integers: 1 };
    const text = await this.text({ ...call, sql: `${call.sql}\nFORMAT JSONEachRow`, settings });
    return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Row]));
  }

  async stream(call: ServerCall): Promise<Readable> {
    const { timeoutMs, signal, queryId = randomUUID() } = call;
    if (signal?.aborted) throw cancelledFailure('notApplied');
    const settings = await this.#known({ timeoutMs: Math.min(timeoutMs, connectTimeoutMs), signal });
    return await this.#sent(call, queryId, settings);
  }

  /** Asks only for the version: all versions answer that alike. Throws ClickHouseError, or a Failure. */
  async versionText(timeoutMs: number): Promise<string> {
    const chunks: Buffer[] = [];
    const call = { sql: 'SELECT version()', timeoutMs };
    for await (const chunk of await this.#sent(call, randomUUID(), new Map())) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks).toString().trim();
  }

  /** Gives up the calls that wait for the server or read from it: it does not respond any more. */
  disconnect(): void {
    this.#settings = undefined;
    for (const sent of this.#inFlight) sent.abandon();
  }

  /** Ends the connections; calls that run fail. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #known(options: Pick<ServerCall, 'timeoutMs' | 'signal'>): Promise<ReadonlyMap<string, string>> {
    if (this.#settings) return this.#settings;
    this.#probing ??= this.#readSettings(options.timeoutMs).finally(() => {
      this.#probing = undefined;
    });
    return this.#probing;
  }

  async #readSettings(timeoutMs: number): Promise<ReadonlyMap<string, string>> {
    const sql = 'SELECT version() AS version, groupArray(name) AS names FROM system.settings FORMAT JSONEachRow';
    const chunks: Buffer[] = [];
    for await (const chunk of await this.#sent({ sql, timeoutMs }, randomUUID(), new Map()))
      chunks.push(chunk as Buffer);
    const { version, names } = JSON.parse(Buffer.concat(chunks).toString()) as { version: string; names: string[] };
    this.#version = version;
    this.#settings = settingsFor(new Set(names), this.#options.comment);
    return this.#settings;
  }

  /** Sends a call, and cancels it on the server when it is aborted or too late. */
  async #sent(call: ServerCall, queryId: string, settings: ReadonlyMap<string, string>): Promise<Readable> {
    const { timeoutMs, signal } = call;
    const sent = new SentCall();
    this.#inFlight.add(sent);
    const timers: NodeJS.Timeout[] = [];
    const exceeded = call.isOfCaller ? timeoutFailure(timeoutMs) : lateFailure(timeoutMs);
    const stop = (reason: Failure, unanswered = reason) => {
      if (!sent.stop(reason)) return;
      void this.#kill(queryId);
      // The server answers a call that it has ended; only one that does not answer has an unknown outcome.
      timers.push(setTimeout(() => sent.giveUp(unanswered), graceMs).unref());
    };
    // A server that does not end even this call has failed, whoever asked for it.
    timers.push(setTimeout(() => stop(exceeded, lateFailure(timeoutMs)), timeoutMs + graceMs).unref());
    const abort = () => stop(cancelledFailure());
    signal?.addEventListener('abort', abort, { once: true });
    const end = () => {
      this.#inFlight.delete(sent);
      for (const timer of timers) clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    };
    // It may have been aborted while the settings were asked for, which the listener does not hear.
    if (signal?.aborted) {
      end();
      throw cancelledFailure('notApplied');
    }
    try {
      await this.#dispatch(call, { queryId, settings, sent, exceeded });
      const body = await sent.answered;
      body.once('close', end);
      if (!sent.isFailed) return body;
      for await (const _ of body);
      throw new Error('a server answered with a failure but no error');
    } catch (error) {
      end();
      throw error;
    }
  }

  async #dispatch(call: ServerCall, { queryId, settings, sent, exceeded }: Dispatch): Promise<void> {
    const { user, password } = await this.#options.credentials();
    const query = new URLSearchParams({ query_id: queryId });
    if (call.database !== undefined) query.set('database', call.database);
    for (const [name, value] of settings) query.set(name, value);
    query.set('max_execution_time', String(call.timeoutMs / 1000));
    for (const [name, value] of Object.entries(call.settings ?? {})) query.set(name, String(value));
    const { body, headers } = await compressed(bodyOf(call, query), call);
    this.#pool.dispatch(
      {
        path: `/?${query}`,
        method: 'POST',
        headers: { ...headers, 'x-clickhouse-user': user, 'x-clickhouse-key': password },
        // It takes any async iterable, which its types do not say, and asks for a chunk when it has sent those before.
        body: body as string | Uint8Array | Readable,
      },
      {
        onRequestStart: (controller) => sent.begin(controller),
        onResponseStart: (controller, status, headers) => sent.answer(controller, status, headers, exceeded),
        onResponseData: (_controller, chunk) => sent.body?.add(chunk),
        onResponseEnd: () => sent.body?.complete(),
        onResponseError: (_controller, error) => {
          this.#settings = undefined;
          sent.lose(error);
        },
      },
    );
  }

  async #kill(queryId: string): Promise<void> {
    const sql = `KILL QUERY WHERE query_id = '${queryId.replaceAll(/[\\']/g, '\\$&')}' ASYNC`;
    const known = this.#settings ?? new Map();
    try {
      for await (const _ of await this.#sent({ sql, timeoutMs: connectTimeoutMs }, randomUUID(), known));
    } catch {
      // The server is gone, and the statement with it; or it has ended by itself.
    }
  }
}

interface SentBody {
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array>;
  readonly headers: Readonly<Record<string, string>>;
}

/** The text, followed by the data of an INSERT. Long parameters are parts of a form. */
function bodyOf({ sql, parameters = {}, data }: ServerCall, query: URLSearchParams): SentBody {
  const values = Object.entries(parameters).map(([name, value]) => [`param_${name}`, value] as const);
  const characters = values.reduce((sum, [name, value]) => sum + name.length + encodeURIComponent(value).length, 0);
  if (characters > uriCharactersMax && data === undefined) return formOf(sql, values);
  for (const [name, value] of values) query.set(name, value);
  if (data === undefined) return { body: sql, headers: {} };
  const head = Buffer.from(`${sql}\n`);
  if (isWhole(data)) return { body: Buffer.concat([head, Buffer.from(data as string)]), headers: {} };
  return { body: withFirst(head, data), headers: {} };
}

const isWhole = (body: SentBody['body']): body is string | Uint8Array =>
  typeof body === 'string' || body instanceof Uint8Array;

const gzipped = promisify(gzip);

async function compressed({ body, headers }: SentBody, call: ServerCall): Promise<SentBody> {
  if (!call.gzip || !isWhole(body)) return { body, headers };
  return { body: await gzipped(body, { level: 1 }), headers: { ...headers, 'content-encoding': 'gzip' } };
}

async function* withFirst(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

function formOf(sql: string, values: readonly (readonly [string, string])[]): SentBody {
  const boundary = randomUUID();
  const part = ([name, value]: readonly [string, string]) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  const body = `${[['query', sql] as const, ...values].map(part).join('')}--${boundary}--\r\n`;
  return { body, headers: { 'content-type': `multipart/form-data; boundary=${boundary}` } };
}

/** Whether the product supports a server of this version. */
export function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return major > versionMin[0] || (major === versionMin[0] && minor >= versionMin[1]);
}
