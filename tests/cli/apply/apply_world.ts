// A server process with a user, a command line that applies a directory to it, and what both have in the end.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type Client, createClient } from '../../../src/client/index.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { type CommandLine, type Ended, newCommandLine, type RunOptions } from '../remote/command_process.ts';

export interface ApplyWorld {
  readonly server: ServerProcess;
  readonly client: Client;
  readonly line: CommandLine;
  /** The directory of the files. */
  readonly files: string;
  apply(words?: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Kills the server and starts it again on the same port and data. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

export async function newApplyWorld(): Promise<ApplyWorld> {
  let server = await startProcess();
  const client = createClient({ url: server.url, token: server.token });
  await client.users.create({ name: 'ann' });
  const line = newCommandLine();
  const files = join(line.directory, 'files');
  const env = { TABULARIUM_URL: server.url, TABULARIUM_TOKEN: server.token };
  Object.assign(line.env, env);
  return {
    get server() {
      return server;
    },
    client,
    line,
    files,
    apply: (words = ['--yes'], options = {}) => line.run(['apply', files, ...words], options),
    async restart() {
      server.child.kill('SIGKILL');
      await server.exited;
      server = await startProcess([`--port=${new URL(server.url).port}`], server.dataDirectory);
    },
    async close() {
      line.remove();
      await server.close();
    },
  };
}

/** Ended with this code; the output is in the message if it has not. */
export function requireExit({ code, stdout, stderr }: Ended, expected: number): void {
  assert.equal(code, expected, `${stdout}\n${stderr}`);
}

const volatile = new Set([
  'createdAt',
  'updatedAt',
  'version',
  'asOf',
  'nextRunAt',
  'dataBytes',
  'statistics',
  'grantId',
  'lastRunAt',
  'lastTask',
]);

/** All definitions of the server. `withVersions`: also when and how often each was changed. */
export async function definitionsOf(client: Client, withVersions = false): Promise<unknown> {
  const found: unknown[] = [];
  for (const database of await client.databases.list().all()) {
    const { tables, views } = client.databases(database.name);
    found.push(database, await tables.list().all(), await views.list().all());
  }
  for (const role of await client.roles.list().all()) {
    const grants = await client.roles(role.name).grants.list().all();
    found.push(
      role,
      grants.toSorted((a, b) => (a.privilege + a.on < b.privilege + b.on ? -1 : 1)),
    );
  }
  found.push(await client.schedules.list().all(), await client.users('ann').grants.list().all());
  const kept = (name: string, value: unknown) =>
    (
      withVersions
        ? ['statistics', 'nextRunAt'].includes(name)
        : volatile.has(name) || (name === 'uri' && String(value).includes('/grants/'))
    )
      ? undefined
      : value;
  return JSON.parse(JSON.stringify(found, kept));
}
