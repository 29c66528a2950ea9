// Shared by the tests of backups of the whole server: functions that request one and wait for it, and the command that restores it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { deadlineMs } from '../deadline.ts';
import { type Reply, type TestServer, uri } from '../server.ts';
import type { Target } from './backing_up.ts';

const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const commandMsMax = deadlineMs(60_000);

/** The record of the ended task. */
export async function backUpServer(server: TestServer, name: string, to: Target): Promise<Reply> {
  return server.ended(await server.post('/api/v2/server_backups', { name, to }));
}

/** The record of the backup. */
export async function serverBackedUp(server: TestServer, name: string, to: Target): Promise<Reply> {
  const task = await backUpServer(server, name, to);
  assert.equal(task.at('state'), 'succeeded', task.text);
  return (await server.get(uri`/server_backups/${name}`)).is(200, '0', { state: 'ready' });
}

export interface CommandRun {
  readonly status: number | null;
  readonly out: string;
  readonly errors: string;
}

/** Runs a command of `tabularium`. Not synchronous, because an object store may be served by this process. */
export function command(
  words: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  onErrors?: (errors: string) => void,
): Promise<CommandRun> {
  const child = spawn(process.execPath, [main, ...words], { env: { ...process.env, ...environment } });
  const { promise, resolve } = Promise.withResolvers<CommandRun>();
  let [out, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
    onErrors?.(errors);
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), commandMsMax);
  child.once('close', (status) => {
    clearTimeout(timer);
    resolve({ status, out, errors });
  });
  return promise;
}

export async function restoredTo(dataDir: string, words: readonly string[], environment = {}): Promise<CommandRun> {
  const run = await command(['restore', 'server', ...words, `--data-dir=${dataDir}`], environment);
  assert.equal(run.status, 0, run.out + run.errors);
  return run;
}
