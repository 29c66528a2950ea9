// A ClickHouse server to compare with: the npm package `chdb` contains its library, and is installed in a directory of its own.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startProgram, stopProcess } from './processes.ts';

const packageName = 'chdb@3.4.0';
const readyMs = 60_000;
const config = (dataDirectory: string) => `<clickhouse>
  <path>${dataDirectory}/</path>
  <logger><level>warning</level><console>1</console></logger>
  <max_server_memory_usage>4000000000</max_server_memory_usage>
</clickhouse>
`;

/** The library, installed if it is not there. Linux x64 only. */
async function libraryIn(directory: string): Promise<string> {
  const library = join(directory, 'node_modules/@chdb/lib-linux-x64-gnu/libchdb.so');
  if (!existsSync(library)) {
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, 'package.json'), '{"private": true}');
    execFileSync('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', packageName], {
      cwd: directory,
      stdio: 'inherit',
    });
  }
  return library;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

export class ClickHouse {
  readonly url: string;
  readonly #child: ReturnType<typeof startProgram>;

  private constructor(url: string, child: ReturnType<typeof startProgram>) {
    this.url = url;
    this.#child = child;
  }

  /** `packageDirectory`: where its package is, or is installed. */
  static async start(packageDirectory: string, dataDirectory: string): Promise<ClickHouse> {
    const library = await libraryIn(packageDirectory);
    const port = await freePort();
    const file = `${dataDirectory}.xml`;
    await writeFile(file, config(dataDirectory));
    const script = join(import.meta.dirname, 'clickhouse_node.py');
    // As the engine of the server, so that other load of the machine slows both down alike.
    const child = startProgram('nice', ['-n', '5', 'python3', script, library, file, dataDirectory, String(port)]);
    const clickHouse = new ClickHouse(`http://127.0.0.1:${port}/`, child);
    const deadline = performance.now() + readyMs;
    while (!(await fetch(clickHouse.url).catch(() => undefined))?.ok) {
      if (performance.now() > deadline) throw new Error('ClickHouse is not ready');
      await sleep(100);
    }
    return clickHouse;
  }

  /** `body`: the data of an INSERT. */
  async run(sql: string, body?: Uint8Array): Promise<string> {
    const url = body ? `${this.url}?query=${encodeURIComponent(sql)}` : this.url;
    const response = await fetch(url, { method: 'POST', body: body ?? sql });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text;
  }

  stop(): Promise<void> {
    return stopProcess(this.#child);
  }
}
