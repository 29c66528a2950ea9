// `load`, `export` and `sql` with a gigabyte through a pipe, in the memory of 30 MB; the real sets of data through the command line; and a
// result of a million rows in an interactive session.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type CommandLine, newCommandLine, signIn } from '../cli/remote/command_process.ts';
import { type Scrolled, scrollResult } from '../cli/remote/large_result.ts';
import { missingTerminal, openTerminal } from '../cli/remote/terminal.ts';
import {
  loadFromPipe,
  readThroughPipe,
  requireFlat,
  type StreamsOptions,
  type Transferred,
} from '../cli/remote/transfer/streams.ts';
import type { Random } from '../random.ts';
import { setNames, setsDirectory } from '../resources/loads/real_sets.ts';
import { type ServerProcess, startProcess } from '../server.ts';

const smallBytes = 30_000_000;
const largeBytes = 1_000_000_000;
const scrolledRows = 1_000_000;
const timeoutMs = 30 * 60_000;
/** Of the server: DuckDB, a process of its own, has a limit of its own. */
const serverGrowthMiBMax = 256;

export interface StreamsReport {
  readonly transfers: Readonly<Record<string, Transferred>>;
  readonly sets: number;
  /** Undefined where there is no terminal. */
  readonly scrolled: Scrolled | undefined;
}

export async function streamThroughCommands(random: Random, problems: string[]): Promise<StreamsReport> {
  const line = newCommandLine();
  const server = await startProcess([], join(line.directory, 'data'));
  try {
    await signIn(line, server);
    await server.client.databases.create({ name: 'streams' });
    const options = { line, server, database: 'streams', seed: random.seed, timeoutMs };
    const transfers = await transferred(options, problems);
    const sets = await setsThroughCommands(random, line, server, problems);
    const scrolled = missingTerminal ? undefined : await scrolledInSession(line, problems);
    return { transfers, sets, scrolled };
  } finally {
    await server.close();
    line.remove();
  }
}

async function transferred(options: StreamsOptions, problems: string[]): Promise<Record<string, Transferred>> {
  const transfers: Record<string, Transferred> = {};
  const works: readonly (readonly ['load' | 'export' | 'sql', (size: 'small' | 'large') => Promise<Transferred>])[] = [
    ['load', (size) => loadFromPipe(options, size, size === 'small' ? smallBytes : largeBytes)],
    ['export', (size) => readThroughPipe(options, size, 'export')],
    ['sql', (size) => readThroughPipe(options, size, 'sql')],
  ];
  for (const [name, work] of works) {
    const small = await work('small');
    const large = await work('large');
    transfers[`${name} small`] = small;
    transfers[name] = large;
    process.stdout.write(`${name}: ${JSON.stringify(small)} ${JSON.stringify(large)}\n`);
    try {
      requireFlat(name, small, large);
      const growth = large.serverMiB - small.serverMiB;
      assert.ok(growth <= serverGrowthMiBMax, `${name}: the server took ${growth} MiB more`);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  return transfers;
}

async function scrolledInSession(line: CommandLine, problems: string[]): Promise<Scrolled | undefined> {
  const terminal = openTerminal(line, 'scrolled', ['sql', '-d', 'streams']);
  try {
    await terminal.shows(/Connected to/);
    return await scrollResult(terminal, scrolledRows, timeoutMs);
  } catch (error) {
    problems.push((error as Error).message);
    return undefined;
  } finally {
    terminal.close();
  }
}

/** Each set is loaded, exported to a file and loaded again from that: both tables have the same rows and checksums. */
async function setsThroughCommands(
  random: Random,
  line: CommandLine,
  server: ServerProcess,
  problems: string[],
): Promise<number> {
  const tables = server.client.databases('streams').tables;
  const names = random.shuffled(setNames());
  const requireRun = async (...words: string[]) => {
    const { code, stderr } = await line.run(words);
    assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
  };
  for (const [n, name] of names.entries()) {
    try {
      const [table, copy] = [`set_${n}`, `copy_${n}`];
      const format = random.pick(['parquet', 'ndjson'] as const);
      const file = `${table}.${format}`;
      await requireRun('load', join(setsDirectory, name), '-d', 'streams', '-t', table, '--create');
      await requireRun('export', '-d', 'streams', '-t', table, '-o', file);
      const definition = await tables(table).get();
      const columns = definition.columns.map((column) => ({ name: column.name, type: column.type }));
      await tables.create({ name: copy, columns }).done();
      await requireRun('load', file, '-d', 'streams', '-t', copy);
      const [left, right] = await Promise.all([table, copy].map((each) => tables(each).checksum({}).done()));
      assert.deepEqual(right, left, `${name} as ${format}`);
    } catch (error) {
      problems.push(`${name}: ${(error as Error).message}`);
    }
  }
  return names.length;
}
