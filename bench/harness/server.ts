// A Tabularium server in a separate process, started as users start it, and a client of it. Loads come from the generator (load.ts):
// they measure raw requests, and a client would need more processor time than the server.
import type { ChildProcess } from 'node:child_process';
import { openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Client, createClient, Task } from '../../src/client/index.ts';
import type { CapturedAnswer } from './load.ts';
import { childrenOf, startNode, stopProcess } from './processes.ts';

const mainScript = join(import.meta.dirname, '..', '..', 'src', 'main.ts');
const readyMs = 60_000;
const answerMs = 120_000;
const statementWaitSeconds = 300;

export interface ServerOptions {
  readonly dataDirectory: string;
  /** Pinned to one core if it is compared with a bare server on the same core; otherwise on all. */
  readonly pinned: boolean;
  readonly flags?: readonly string[];
  readonly nodeFlags?: readonly string[];
  /** Another script than src/main.ts, which starts an instrumented server. */
  readonly script?: string;
}

type Definition = Omit<Parameters<ReturnType<Client['databases']>['tables']['create']>[0], 'name'>;

/** The duration of an operation in milliseconds, and its result. */
export async function timed<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly result: T }> {
  const startMs = performance.now();
  const result = await work();
  return { ms: performance.now() - startMs, result };
}

export class TabulariumServer {
  readonly process: ChildProcess;
  readonly url: string;
  readonly token: string;
  readonly client: Client;
  /** From the start of the process until it reported that it is ready. */
  readonly readyMs: number;

  private constructor(process: ChildProcess, url: string, token: string, readyMs: number) {
    this.process = process;
    this.url = url;
    this.token = token;
    this.client = createClient({ url, token, timeoutMs: answerMs });
    this.readyMs = readyMs;
  }

  /** The log is written to a file, as in operation. */
  static async start(options: ServerOptions): Promise<TabulariumServer> {
    const { dataDirectory, pinned, flags = [], nodeFlags, script = mainScript } = options;
    const log = openSync(`${dataDirectory}.log`, 'a');
    const startMs = performance.now();
    const child = startNode(script, ['--port', '0', '--data-dir', dataDirectory, ...flags], {
      stdio: ['ignore', 'pipe', log, 'ipc'],
      core: pinned ? 0 : undefined,
      ...(nodeFlags ? { nodeFlags } : {}),
    });
    const { promise, resolve, reject } = Promise.withResolvers<{ url: string; ms: number }>();
    const timer = setTimeout(() => reject(new Error(`the server is not ready after ${readyMs} ms`)), readyMs);
    let text = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      const url = /^ {2}URL +(\S+)$/m.exec(text)?.[1];
      if (url !== undefined) resolve({ url, ms: performance.now() - startMs });
    });
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}; its log is ${dataDirectory}.log`)));
    try {
      const { url, ms } = await promise;
      const token = (await readFile(join(dataDirectory, 'root.token'), 'utf8')).trim();
      return new TabulariumServer(child, url, token, ms);
    } finally {
      clearTimeout(timer);
    }
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get pid(): number {
    return this.process.pid as number;
  }

  /** The processes of its engines. */
  enginePids(): number[] {
    return childrenOf(this.pid);
  }

  get authorization(): Record<string, string> {
    return { Authorization: `Bearer ${this.token}` };
  }

  async createDatabase(name: string): Promise<void> {
    await this.client.databases.create({ name }, { ifExists: 'return' });
  }

  async createTable(database: string, name: string, definition: Definition): Promise<void> {
    await this.client
      .databases(database)
      .tables.create({ name, ...definition })
      .done();
  }

  /** The first page of rows of a statement. */
  async query(database: string, sql: string): Promise<readonly (readonly unknown[])[]> {
    const statement = { sql, waitSeconds: statementWaitSeconds };
    // A key would be stored with its answer, which is not part of what is measured.
    const result = await this.client.databases(database).query(statement, { idempotencyKey: false });
    if (result instanceof Task) throw new Error(`a statement did not end in ${statementWaitSeconds} s: ${sql}`);
    return result.rows ?? [];
  }

  /** Sends the bytes of an upload as a stream, which `fetch` would copy more often than Node's own client. */
  async sendFile(link: string | undefined, bytes: number, content: Readable, signal?: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const put = request(new URL(link ?? '', this.url), {
      method: 'PUT',
      headers: { 'content-length': bytes },
      ...(signal ? { signal } : {}),
    });
    put.on('response', (response) => {
      response.resume();
      if (response.statusCode === 200) response.once('end', resolve);
      else reject(new Error(`an upload was answered with ${response.statusCode}`));
    });
    put.on('error', reject);
    await Promise.all([promise, pipeline(content, put)]);
  }

  /** An uncompressed response with its headers, for the bare server to repeat, without those that Node.js writes itself. */
  async capture(path: string): Promise<CapturedAnswer> {
    const headersSent = { ...this.authorization, 'accept-encoding': 'identity' };
    const response = await fetch(new URL(path, this.url), { headers: headersSent });
    const headers: Record<string, string> = {};
    for (const [name, value] of response.headers) {
      if (!['date', 'connection', 'keep-alive'].includes(name)) headers[name] = value;
    }
    return { status: response.status, headers, body: await response.text() };
  }

  stop(): Promise<void> {
    return stopProcess(this.process);
  }
}
