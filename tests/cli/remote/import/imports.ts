// Runs imports as processes against a real server, and compares what arrives with what is expected.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { start, type TestServer } from '../../../server.ts';
import { type CommandLine, newCommandLine, type RunOptions } from '../command_process.ts';

export interface Report {
  readonly tables: readonly {
    readonly name: string;
    readonly state: string;
    readonly rows: number;
    readonly reason?: string;
  }[];
  readonly views: readonly { readonly name: string; readonly state: string; readonly reason?: string }[];
  readonly notCarried: readonly { readonly object: string; readonly kind: string; readonly text: string }[];
}

export interface ImportTest {
  readonly server: TestServer;
  readonly line: CommandLine;
  readonly path: (name: string) => string;
  readonly run: (words: readonly string[], options?: RunOptions) => ReturnType<CommandLine['run']>;
  /** Imports with `--json`; the command must have the exit code. */
  readonly imported: (words: readonly string[], code?: number) => Promise<Report>;
  /** The types of the columns of a table, by their names. */
  readonly types: (database: string, table: string) => Promise<Readonly<Record<string, string>>>;
  readonly close: () => Promise<void>;
}

export async function startImports(settings: Parameters<typeof start>[0] = {}): Promise<ImportTest> {
  const server = await start(settings);
  const line = newCommandLine();
  const path = (name: string) => join(line.directory, name);
  writeFileSync(path('token'), `${server.token}\n`);
  const run: ImportTest['run'] = (words, options) =>
    line.run(['import', '--url', server.url, '--token-file', 'token', ...words], options);
  return {
    server,
    line,
    path,
    run,
    async imported(words, code = 0) {
      const ended = await run([...words, '--json']);
      assert.equal(ended.code, code, `${words.join(' ')}: ${ended.stderr}${ended.stdout}`);
      return JSON.parse(ended.stdout) as Report;
    },
    async types(database, table) {
      const { columns } = await server.client.databases(database).tables(table).get();
      return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
    },
    async close() {
      line.remove();
      await server.close();
    },
  };
}

/** Of all objects, in the order of the report. */
export const lost = ({ notCarried }: Pick<Report, 'notCarried'>): string[] =>
  notCarried.map(({ object, kind }) => `${object}: ${kind}`);
