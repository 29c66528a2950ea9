// A server whose data directory is on a separate small disk: a tmpfs in a mount namespace that only the server and its engines
// see. Linux only. The test accesses it through /proc, to fill the disk and to free space.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, statfsSync, statSync } from 'node:fs';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deadlineMs } from '../../deadline.ts';
import { TestServer } from '../../server.ts';

const writeBytes = 1 << 20;
const smallestWriteBytes = 512;
const stopMs = deadlineMs(20_000);

export class SmallDisk {
  readonly server: TestServer;
  /** The data directory, as seen from outside. */
  readonly directory: string;

  private constructor(server: TestServer, directory: string) {
    this.server = server;
    this.directory = directory;
  }

  static async start(megabytes: number, flags: readonly string[]): Promise<SmallDisk> {
    const mountPoint = await mkdtemp(join(tmpdir(), 'tabularium-disk-'));
    const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
    const serverFlags = [
      '--port=0',
      `--data-dir=${mountPoint}`,
      `--log-level=${process.env.FAULTS_LOG ?? 'fatal'}`,
      '--warehouse-threads=2',
      ...flags,
    ];
    const mount = `mount -t tmpfs -o size=${megabytes}m tmpfs "$0" && exec "$@"`;
    const child = spawn(
      'unshare',
      ['--user', '--map-root-user', '--mount', 'sh', '-c', mount, mountPoint, process.execPath, main, ...serverFlags],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const kill = () => child.kill('SIGKILL');
    process.once('exit', kill);
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    const url = await new Promise<string>((resolve, reject) => {
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => {
        output += chunk;
        const serverUrl = /URL +(http:\S+)\n/.exec(output)?.[1];
        if (serverUrl !== undefined) resolve(serverUrl);
      });
      child.once('exit', () => reject(new Error(`the server ended before it was ready: ${output}`)));
    });
    const directory = `/proc/${child.pid}/root${mountPoint}`;
    const token = (await readFile(join(directory, 'root.token'), 'utf8')).trim();
    const server = new TestServer({ url, token, dataDirectory: directory }, async () => {
      child.kill('SIGTERM');
      const timer = setTimeout(kill, stopMs);
      await exited;
      clearTimeout(timer);
      process.off('exit', kill);
      await rm(mountPoint, { recursive: true, force: true });
    });
    return new SmallDisk(server, directory);
  }

  get freeBytes(): number {
    const { bavail, bsize } = statfsSync(this.directory);
    return bavail * bsize;
  }

  /** Leaves about this much space. 0: none. */
  async fillLeaving(leave: number): Promise<void> {
    const file = await open(this.#ballast, 'a');
    try {
      for (let bytes = writeBytes; bytes >= smallestWriteBytes; ) {
        if (this.freeBytes - bytes < leave) bytes /= 2;
        else
          await file.write(Buffer.alloc(bytes)).catch(() => {
            bytes /= 2;
          });
      }
    } finally {
      await file.close();
    }
  }

  async free(): Promise<void> {
    await rm(this.#ballast, { force: true });
  }

  /** Files below a directory of the data, with their sizes. */
  filesIn(name: string): Record<string, number> {
    const path = join(this.directory, name);
    if (!existsSync(path)) return {};
    const all = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) =>
      statSync(join(path, file)).isFile(),
    );
    return Object.fromEntries(all.map((file) => [file, statSync(join(path, file)).size]));
  }

  get #ballast(): string {
    return join(this.directory, 'ballast');
  }
}
