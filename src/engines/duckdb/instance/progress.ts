// How far a call has come, by DuckDB's own count of the statement that its connection runs, told to the server now and then. Work
// of several statements says before each which part of the whole it is.
import type { DuckDBConnection } from '@duckdb/node-api';

const tellEveryMs = 200;

/** What follows takes the work from one part of the whole to another, each from 0 to 1. */
export type Stage = (from: number, to: number) => void;

/** Divides the whole by the weights of its parts; each call begins the next part. */
export function stagesOf(stage: Stage | undefined, weights: readonly number[]): () => void {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let part = 0;
  let done = 0;
  return () => {
    const weight = weights[part++] ?? 0;
    if (total > 0 && weight > 0) stage?.(done / total, (done + weight) / total);
    done += weight;
  };
}

/** On for every connection: it costs nothing that could be measured. As pragmas, because the settings are locked. */
export async function countProgress(connection: DuckDBConnection): Promise<void> {
  await connection.run('PRAGMA enable_progress_bar');
  await connection.run('PRAGMA disable_print_progress_bar');
}

export class CallProgress {
  readonly #connection: () => DuckDBConnection | undefined;
  readonly #tell: (fraction: number) => void;
  readonly #timer: NodeJS.Timeout;
  #from = 0;
  #to = 1;
  #told: number | undefined;

  /** `connection`: that the work has now, if it has one. */
  constructor(connection: () => DuckDBConnection | undefined, tell: (fraction: number) => void) {
    this.#connection = connection;
    this.#tell = tell;
    this.#timer = setInterval(() => this.#look(), tellEveryMs);
    this.#timer.unref();
  }

  readonly stage: Stage = (from, to) => {
    this.#from = from;
    this.#to = to;
    this.#say(from);
  };

  end(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    // Below zero where DuckDB does not know, or nothing runs.
    const percentage = this.#connection()?.progress.percentage ?? -1;
    if (percentage >= 0) this.#say(this.#from + ((this.#to - this.#from) * Math.min(100, percentage)) / 100);
  }

  #say(fraction: number): void {
    if (fraction === this.#told) return;
    this.#told = fraction;
    this.#tell(fraction);
  }
}
