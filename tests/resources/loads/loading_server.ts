// A server with a database `d` that may load from a temporary directory, for tests that write files there.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { start, type TestServer } from '../../server.ts';

export interface LoadingServer {
  readonly server: TestServer;
  readonly directory: string;
  /** Writes a file with these bytes, and returns its path. */
  readonly writeFile: (name: string, bytes: string | Uint8Array) => string;
  readonly close: () => Promise<void>;
}

export async function startLoading(): Promise<LoadingServer> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'tabularium-loading-')));
  const server = await start({ loadDirectories: directory });
  (await server.put('/api/v2/databases/d')).is(201);
  return {
    server,
    directory,
    writeFile: (name, bytes) => {
      const path = join(directory, name);
      writeFileSync(path, bytes);
      return path;
    },
    close: async () => {
      await server.close();
      rmSync(directory, { recursive: true });
    },
  };
}
