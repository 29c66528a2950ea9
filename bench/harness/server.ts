// A Tabularium server as a process of its own, started as a user starts it, and calls to it.
import type { ChildProcess } from 'node:child_process';
import { openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type RestAnswer, type RestCall, sendRest } from '../../src/client/rest_call.ts';
import type { CapturedAnswer } from './load.ts';
import { childrenOf, startNode, stopProcess } from './processes.ts';

const mainScript = join(import.meta.dirname, '..', '..', 'src', 'main.ts');
const readyMs = 60_000;

export interface ServerOptions {
  readonly dataDirectory: string;
  /** Pinned to one core, for what is measured against a bare server on the same core; else on all. */
  readonly pinned: boolean;
  readonly flags?: readonly string[];
  readonly nodeFlags?: readonly string[];
  /** Another script than src/main.ts, one that starts the server with something around it. */
  readonly script?: string;
}

export class TabulariumServer {
  readonly process: ChildProcess;
  readonly url: string;
  readonly token: string;
  /** From the start of the process until it said that it is ready. */
  readonly readyMs: number;

  private constructor(process: ChildProcess, url: string, token: string, readyMs: number) {
    this.process = process;
    this.url = url;
    this.token = token;
    this.readyMs = readyMs;
  }

  /** The log goes to a file, as it would in earnest. */
  static async start(options: ServerOptions): Promise<TabulariumServer> {
    const { dataDirectory, pinned, flags = [], nodeFlags, script = mainScript } = options;
    const log = openSync(`${dataDirectory}.log`, 'a');
    const began = performance.now();
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
      if (url !== undefined) resolve({ url, ms: performance.now() - began });
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

  send(call: RestCall): Promise<RestAnswer> {
    return sendRest({ url: this.url, token: this.token }, call);
  }

  async put(path: string, body: object = {}): Promise<RestAnswer> {
    return this.send({ method: 'PUT', path, mediaType: 'application/json', body: JSON.stringify(body) });
  }

  async query(database: string, sql: string): Promise<RestAnswer> {
    const path = `/api/v2/databases/${database}/query`;
    return this.send({
      method: 'POST',
      path,
      mediaType: 'application/json',
      body: JSON.stringify({ sql, waitSeconds: 300 }),
    });
  }

  /** An answer with its headers, for the bare server to repeat. Those that Node writes itself are left out. */
  async capture(path: string): Promise<CapturedAnswer> {
    const response = await fetch(new URL(path, this.url), { headers: this.authorization });
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
