// A server process with a user, a command line that applies a directory to it, and what both have in the end.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type ApplyOptions, apply } from '../../../src/cli/apply/apply.ts';
import type { Runtime } from '../../../src/cli/remote/call_options.ts';
import { connect } from '../../../src/cli/remote/connection.ts';
import { shownFailure } from '../../../src/cli/remote/exit_codes.ts';
import type { Output } from '../../../src/cli/remote/output/output.ts';
import { type Client, createClient } from '../../../src/client/index.ts';
import { clusterHosts } from '../../engines/clickhouse/cluster_warehouse.ts';
import { type ServerProcess, startProcess } from '../../server.ts';
import { type CommandLine, type Ended, newCommandLine } from '../remote/command_process.ts';

export interface ApplyWorld {
  readonly server: ServerProcess;
  readonly client: Client;
  readonly line: CommandLine;
  /** The directory of the files. */
  readonly files: string;
  /** Applies the files in this process, which is cheaper than a command; `yes` unless it is given. */
  apply(options?: Pick<ApplyOptions, 'dryRun' | 'json' | 'prune' | 'yes'>): Promise<Ended>;
  /** Kills the server and starts it again on the same port and data. */
  restart(): Promise<void>;
  close(): Promise<void>;
}

/** With which a server can have warehouses on the nodes of a ring. */
export const clusterFlags: readonly string[] = [`--cluster-hosts=${clusterHosts}`];

export async function newApplyWorld(flags: readonly string[] = []): Promise<ApplyWorld> {
  let server = await startProcess(flags);
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
    apply: (options = {}) => appliedHere(files, { yes: true, ...options }, env),
    async restart() {
      server.child.kill('SIGKILL');
      await server.exited;
      server = await startProcess([`--port=${new URL(server.url).port}`, ...flags], server.dataDirectory);
    },
    async close() {
      line.remove();
      await server.close();
    },
  };
}

async function appliedHere(files: string, options: ApplyOptions, env: NodeJS.ProcessEnv): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const output: Output = {
    write: async (text) => {
      written.stdout += text;
    },
    note: (text) => {
      written.stderr += `${text}
`;
    },
    isTerminal: false,
    isInteractive: false,
    columns: 120,
    style: (_format, text) => text,
  };
  const { signal } = new AbortController();
  const runtime: Runtime = { connect: (own) => connect(own, env), output: () => output, signal };
  const { exitCode } = process;
  process.exitCode = 0;
  try {
    await apply(files, options, runtime);
    return { ...written, code: Number(process.exitCode) };
  } catch (error) {
    const failure = await shownFailure(error);
    if (!failure) throw error;
    return { code: failure.exitCode, stdout: written.stdout, stderr: `${written.stderr}${failure.message}\n` };
  } finally {
    process.exitCode = exitCode;
  }
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
