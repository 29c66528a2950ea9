// DuckDB in process, as the benchmarks use it; see duckdb_process.ts for its process. It runs on a copy of the server's own file.
import type { ChildProcess } from 'node:child_process';
import { copyFile, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckdbAnswer, DuckdbJob } from './duckdb_process.ts';
import { ask, startNode, stopProcess } from './processes.ts';

/** The same as in the server's engine. */
const threadPoolSize = '32';

export class DirectDuckdb {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async open(file: string, schema: string): Promise<DirectDuckdb> {
    const child = startNode(join(import.meta.dirname, 'duckdb_process.ts'), [], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, UV_THREADPOOL_SIZE: threadPoolSize },
    });
    const direct = new DirectDuckdb(child);
    await direct.#run({ kind: 'open', file, name: 'default', schema });
    return direct;
  }

  /** Milliseconds of each statement, including reading its rows. */
  async statements(texts: readonly string[]): Promise<readonly number[]> {
    return timesOf(await this.#run({ kind: 'statements', texts }));
  }

  /**
   * Milliseconds of each run of one prepared statement, including reading its single row. `everyMs`: the time from one run to the next; a
   * process that slept in between is slower.
   */
  async prepared(text: string, values: readonly number[], everyMs: number): Promise<readonly number[]> {
    return timesOf(await this.#run({ kind: 'prepared', text, values, everyMs }));
  }

  /** Writes the rows of a query to a file, and removes it. `options`: options of COPY. */
  async copy(
    text: string,
    file: string,
    options = 'FORMAT json',
  ): Promise<{ readonly ms: number; readonly bytes: number }> {
    const answer = await this.#run({ kind: 'copy', text, file, options });
    if (answer.kind !== 'copied') throw new Error(`an answer of kind ${answer.kind}`);
    return answer;
  }

  stop(): Promise<void> {
    return stopProcess(this.#child);
  }

  async #run(job: DuckdbJob): Promise<DuckdbAnswer> {
    const answer = await ask<DuckdbJob, DuckdbAnswer>(this.#child, job);
    if (answer.kind === 'failed') throw new Error(answer.error);
    return answer;
  }
}

function timesOf(answer: DuckdbAnswer): readonly number[] {
  if (answer.kind !== 'times') throw new Error(`an answer of kind ${answer.kind}`);
  return answer.ms;
}

/** Copies a catalog's file and log from a stopped server, so that both sides of a comparison read the same bytes. */
export async function copyCatalogFile(dataDirectory: string, to: string): Promise<string> {
  const directory = join(dataDirectory, 'catalogs');
  await mkdir(to, { recursive: true });
  const names = await readdir(directory);
  const data = names.filter((name) => name.endsWith('.duckdb'));
  if (data.length !== 1) throw new Error(`${data.length} catalogs have a file, not 1`);
  for (const name of names) await copyFile(join(directory, name), join(to, name));
  return join(to, data[0] as string);
}
