// A real server for tests: started in this process or as one of its own, in a directory of its own, on a port that is free;
// a small request function that holds every answer to the standard (closed statuses, envelope, no 500); stopped and removed.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { taskCodesOf } from '../src/api/tasks/task_codes.ts';
import { type TaskType, taskTypes } from '../src/api/tasks/task_types.ts';
import { type Client, createClient } from '../src/client/index.ts';
import { heartbeatMs } from '../src/engines/duckdb/process/protocol.ts';
import { type ServerHooks, startServer } from '../src/main.ts';
import { readSettings, type Settings } from '../src/settings/read_settings.ts';
import { analysisTimeoutMs, deadlineFromNow, deadlineMs, eventually, statementWaitSeconds } from './deadline.ts';
import { undeclared } from './declared_codes.ts';
import { RawHttp, type RawReply } from './raw_http.ts';

/** The statuses that anything under /api/ may have (rest-standard A4). */
export const statuses: readonly number[] = [200, 201, 202, 400, 401, 403, 404, 405, 406, 415, 500, 503];
const requestMs = deadlineMs(60_000);
const stopMs = deadlineMs(20_000);
const taskQuietMs = 30_000;

export interface RequestOptions {
  /** Sent as JSON, unless it is a string or bytes, which are sent as they are. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly signal?: AbortSignal;
}

function requireDeclared(method: string, path: string, reply: Reply): void {
  if (reply.code === '0') requireDeclaredFailures(reply);
  if (!path.startsWith('/api/')) return;
  const problem = undeclared(method, path, reply.code);
  assert.ok(problem === undefined, `${problem}: ${reply.text}`);
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A task that failed has a code that its type declares; lists and searches have several tasks. */
function requireDeclaredFailures({ request, result }: Reply): void {
  const { tasks = [result] } = result;
  for (const task of Array.isArray(tasks) ? tasks.filter(isRecord) : []) {
    const { taskId, type, error } = task;
    if (typeof taskId !== 'string' || !isRecord(error) || !taskTypes.some((known) => known === type)) continue;
    const declared = taskCodesOf(type as TaskType);
    assert.ok(
      declared?.some((code) => code === error.code) ?? true,
      `${request}: src/api/tasks/task_codes.ts does not declare ${error.code} for ${type}: ${JSON.stringify(error)}`,
    );
  }
}

/** An answer under /api/, already held to the standard. */
export class Reply {
  readonly request: string;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly code: string;
  readonly message: string;
  readonly result: Readonly<Record<string, unknown>>;

  constructor(request: string, status: number, headers: IncomingHttpHeaders, text: string) {
    this.request = request;
    this.status = status;
    this.headers = headers;
    this.text = text;
    assert.ok(statuses.includes(status), `${request}: status ${status}: ${text}`);
    assert.notEqual(status, 500, `${request}: ${text}`);
    assert.equal(headers['content-type'], 'application/json', request);
    const body = JSON.parse(text) as { code: string; message: string; result: Record<string, unknown> };
    assert.deepEqual(Object.keys(body), ['code', 'message', 'result'], `${request}: ${text.slice(0, 300)}`);
    this.code = body.code;
    this.message = body.message;
    this.result = body.result;
    assert.ok(typeof body.result === 'object' && body.result !== null && !Array.isArray(body.result), request);
    assert.equal(status < 300, this.code === '0', `${request}: ${status} ${this.code}`);
    if (status < 300) assert.equal(this.message, 'OK', request);
    assert.equal(status === 503, headers['retry-after'] !== undefined, `${request}: Retry-After goes with 503`);
    const outcome = status >= 500 ? body.result.outcome : 'none';
    assert.ok(['notApplied', 'unknown', 'none'].includes(String(outcome)), `${request}: no outcome: ${text}`);
  }

  /** Asserts what came, and hands the answer on. `result`: the fields that the result must have, perhaps among others. */
  is(status: number, code?: string | undefined, result?: object): this {
    assert.equal(
      `${this.status} ${this.code}`,
      `${status} ${code ?? '0'}`,
      `${this.request}: ${this.text.slice(0, 500)}`,
    );
    if (result !== undefined) assert.partialDeepStrictEqual(this.result, result, this.request);
    return this;
  }

  /** A value inside the result: `at('columns', 0, 'name')`. */
  at<T = unknown>(...path: readonly (string | number)[]): T {
    let value: unknown = this.result;
    for (const key of path) value = (value as Record<string | number, unknown> | undefined)?.[key];
    return value as T;
  }
}

/** `uri`/catalogs/${name}`` → the path under /api/v2 with the name percent-encoded. */
export function uri(texts: TemplateStringsArray, ...names: readonly string[]): string {
  return `/api/v2${texts.reduce((path, text, i) => path + encodeURIComponent(names[i - 1] ?? '') + text)}`;
}

/** The record of a task once it has ended; of one that does not end in time, as it is then. */
export async function endOfTask(
  client: { readonly get: (path: string) => Promise<Reply> },
  uri: string,
): Promise<Reply> {
  const isOver = deadlineFromNow(taskQuietMs);
  for (;;) {
    const task = await client.get(`${uri}?waitSeconds=30`);
    if (!['pending', 'running'].includes(task.at('state')) || isOver()) return task;
  }
}

/** Until a statement runs in the engine of the default warehouse, and is not only being analyzed there. */
export async function statementRuns(server: Pick<TestServer, 'get'>): Promise<void> {
  let since = Number.POSITIVE_INFINITY;
  await eventually('a statement runs', async () => {
    const backends = (await server.get('/api/v2/warehouses/default/backends')).is(200);
    const isRunning = backends.at<number>('backends', 0, 'runningQueries') > 0;
    since = isRunning ? Math.min(since, performance.now()) : Number.POSITIVE_INFINITY;
    return performance.now() - since > 3 * heartbeatMs;
  });
}

export class TestServer {
  readonly url: string;
  readonly port: number;
  readonly token: string;
  readonly dataDirectory: string;
  readonly #http: RawHttp;
  /** For what is no test of HTTP. Its answers are held to the standard, too; it retries nothing. */
  readonly client: Client;
  /** A new one-time link to the console, of a server in this process. */
  readonly signInUrl: () => string | undefined;
  readonly #stop: () => Promise<void>;

  constructor(
    running: { url: string; token: string; dataDirectory: string; signInUrl?: () => string | undefined },
    stop: () => Promise<void>,
  ) {
    this.url = running.url;
    this.#http = new RawHttp(running.url);
    this.client = createClient({
      url: running.url,
      token: running.token,
      retryForMs: 0,
      timeoutMs: requestMs,
      fetch: (to, init) => this.#checkedFetch(String(to), init),
    });
    this.port = Number(new URL(running.url).port);
    this.token = running.token;
    this.dataDirectory = running.dataDirectory;
    this.signInUrl = running.signInUrl ?? (() => undefined);
    this.#stop = stop;
  }

  /** Any answer of the server, unchecked. With a body and no Content-Type, it is JSON; `undefined` sends no such header. */
  send(method: string, path: string, options: RequestOptions = {}): Promise<RawReply> {
    const { body, headers, signal } = options;
    const bytes =
      body === undefined || typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
    const allHeaders = {
      authorization: `Bearer ${this.token}`,
      ...(bytes === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    };
    return this.#http.send({ method, path, headers: allHeaders, body: bytes, timeoutMs: requestMs, signal });
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Reply> {
    const { status, headers, text } = await this.send(method, path, options);
    const reply = new Reply(`${method} ${path.slice(0, 200)}`, status, headers, text);
    requireDeclared(method, path, reply);
    return reply;
  }

  async #checkedFetch(url: string, init: RequestInit = {}): Promise<Response> {
    const response = await fetch(url, init);
    const text = await response.text();
    const [method = 'GET', path] = [init.method, url.slice(this.url.length)];
    requireDeclared(
      method,
      path,
      new Reply(`${method} ${path}`, response.status, Object.fromEntries(response.headers), text),
    );
    return new Response(text, response);
  }

  get = (path: string) => this.request('GET', path);
  delete = (path: string) => this.request('DELETE', path);
  post = (path: string, body: unknown = {}) => this.request('POST', path, { body });
  put = (path: string, body: unknown = {}) => this.request('PUT', path, { body });
  patch = (path: string, body: unknown) => this.request('PATCH', path, { body });

  /** SQL in a database of the catalog `default`. Waits longer than the API's default, so that no statement becomes a task by slowness. */
  query(database: string, sql: string, more: object = {}): Promise<Reply> {
    const wait = 'after' in more ? {} : { waitSeconds: statementWaitSeconds() };
    return this.post(uri`/databases/${database}/query`, { sql, ...wait, ...more });
  }

  /** The rows of a SELECT that must succeed. */
  async rows(database: string, sql: string, parameters: unknown = []): Promise<unknown[][]> {
    return (await this.query(database, sql, { parameters, waitSeconds: statementWaitSeconds() })).is(200).at('rows');
  }

  /** A 202 → the record of its task once that has ended. */
  ended = (accepted: Reply) => endOfTask(this, accepted.is(202).at('uri'));

  async close(): Promise<void> {
    this.#http.close();
    await this.#stop();
  }
}

/** Small limits, so that a test's warehouse is cheap; only errors are logged, because there should be none. */
const small = {
  port: 0,
  logLevel: 'error',
  warehouseThreads: 2,
  exportHosts: '127.0.0.1',
  loadHosts: '127.0.0.1',
  backupPassphrase: 'correct horse battery staple',
  identityProviderHosts: '127.0.0.1,*.invalid,*.example.com',
  warehouseMemoryBytes: 512 * 1024 * 1024,
  spareEngine: false,
  analysisTimeoutMs,
  loadDirectories: fileURLToPath(new URL('data', import.meta.url)),
} as const satisfies Partial<Settings>;

export async function temporaryDirectory(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'tabularium-test-'));
}

/** A server in this process. `dataDir`: one that is kept, for tests that start a server on it again. */
export async function start(overrides: Partial<Settings> = {}, hooks: ServerHooks = {}): Promise<TestServer> {
  const dataDir = overrides.dataDir ?? (await temporaryDirectory());
  const settings = { ...readSettings(['--data-dir', dataDir], {}), ...small, ...overrides, dataDir };
  const running = await startServer(settings, hooks);
  return new TestServer(running, async () => {
    await running.close();
    if (overrides.dataDir === undefined) await rm(dataDir, { recursive: true, force: true });
  });
}

export class ServerProcess extends TestServer {
  readonly child: ChildProcess;
  /** Resolves with the exit code, or the signal's name. */
  readonly exited: Promise<number | string | null>;
  constructor(running: { url: string; token: string; dataDirectory: string }, child: ChildProcess, keep: boolean) {
    const exited = exitOf(child);
    super(running, async () => {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), stopMs);
      await exited;
      clearTimeout(timer);
      if (!keep) await rm(running.dataDirectory, { recursive: true, force: true });
    });
    this.child = child;
    this.exited = exited;
  }
}

function exitOf(child: ChildProcess): Promise<number | string | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode ?? child.signalCode);
  return new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
}

interface ProcessOptions {
  /** A module that it imports first. */
  readonly preload?: URL | undefined;
  /** The module that starts the server; by default, that of `npm start`. */
  readonly entry?: URL | undefined;
  readonly environment?: NodeJS.ProcessEnv | undefined;
  /** The words before the command that run it elsewhere. */
  readonly enter?: readonly string[] | undefined;
}

/** A server in a process of its own, as `npm start` runs it. `flags`: `--name=value`. */
export async function startProcess(
  flags: readonly string[] = [],
  dataDir?: string,
  options: ProcessOptions = {},
): Promise<ServerProcess> {
  const directory = dataDir ?? (await temporaryDirectory());
  const { preload, entry = new URL('../src/main.ts', import.meta.url) } = options;
  const main = fileURLToPath(entry);
  const env = { ...process.env, ...options.environment };
  const own = [
    '--port=0',
    `--data-dir=${directory}`,
    '--log-level=error',
    '--warehouse-threads=2',
    `--analysis-timeout-ms=${analysisTimeoutMs}`,
  ];
  const nameOf = (flag: string) => flag.slice(0, flag.indexOf('='));
  const usual = own.filter((flag) => !flags.some((passed) => nameOf(passed) === nameOf(flag)));
  // A preloaded module talks to the test by messages.
  const preloads = preload ? ['--import', preload.href] : [];
  const [command = '', ...words] = [...(options.enter ?? []), process.execPath, ...preloads, main, ...usual, ...flags];
  const child = preload
    ? spawn(command, words, { env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    : spawn(command, words, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  // A test that asks for more than errors reads them itself.
  if (usual.includes('--log-level=error')) child.stderr?.pipe(process.stderr);
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  // Without this, a test that is stopped from outside would leave the server behind.
  if (process.listenerCount('SIGTERM') === 0) process.once('SIGTERM', () => process.exit(143));
  child.once('exit', () => process.off('exit', kill));
  const url = await readyUrl(child);
  const token = (await readFile(join(directory, 'root.token'), 'utf8')).trim();
  return new ServerProcess({ url, token, dataDirectory: directory }, child, dataDir !== undefined);
}

/** Of what a server writes before it is ready. */
const errorsMax = 10_000;

function readyUrl(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let [output, errors] = ['', ''];
  child.stderr?.on('data', (chunk: Buffer) => {
    errors = (errors + chunk).slice(-errorsMax);
  });
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk;
    const url = /URL +(http:\S+)\n/.exec(output)?.[1];
    if (url !== undefined) resolve(url);
  });
  // When its streams have ended, too.
  child.once('close', (code, signal) =>
    reject(new Error(`the server ended before it was ready, with ${code ?? signal}: ${output}${errors}`)),
  );
  return promise;
}
