// Shared by the tests of backups: a server with a directory for backups, and functions that request a backup or a restore and wait
// for it.
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import type { Settings } from '../../src/settings/read_settings.ts';
import { type Reply, start, type TestServer, uri } from '../server.ts';

export interface BackupServer {
  readonly server: TestServer;
  /** A directory to which the server may write backups. */
  readonly directory: string;
  close(): Promise<void>;
}

export async function startBackingUp(overrides: Partial<Settings> = {}): Promise<BackupServer> {
  const directory = await mkdtemp(join(tmpdir(), 'tabularium-backups-'));
  const server = await start({
    backupDirectories: directory,
    backupPassphrase: '',
    loadHosts: '127.0.0.1',
    ...overrides,
  });
  return {
    server,
    directory,
    close: async () => {
      await server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export type Target = { readonly path: string } | { readonly s3: object };

/** Relative, with `/`. */
export async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => relative(directory, join(parentPath, name))).sort();
}

/** The record of the ended task. */
export async function backUp(server: TestServer, path: string, to: Target): Promise<Reply> {
  return server.ended(await server.post(`${path}/backup`, { to }));
}

export async function backUpSucceeding(server: TestServer, path: string, to: Target) {
  const task = await backUp(server, path, to);
  assert.equal(task.at('state'), 'succeeded', task.text);
  return task.at<{
    backupId: string;
    since: string | null;
    tables: number;
    rows: number;
    files: number;
    filesSent: number;
    bytesSent: number;
  }>('result');
}

export async function restore(server: TestServer, collection: string, body: object): Promise<Reply> {
  return server.ended(await server.post(`${collection}/restore`, body));
}

export async function restoreSucceeding(server: TestServer, collection: string, body: object): Promise<Reply> {
  const task = await restore(server, collection, body);
  assert.equal(task.at('state'), 'succeeded', task.text);
  return task;
}

/** Rows of a SELECT with a catalog as its default. */
export async function rowsIn(server: TestServer, catalog: string, sql: string): Promise<unknown[][]> {
  return (await server.post(uri`/catalogs/${catalog}/query`, { sql })).is(200).at('rows');
}
