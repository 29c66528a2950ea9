// The progress of a call, from DuckDB's progress counter of the statement on its connection, reported to the server periodically.
// Work of several statements announces before each of them which fraction of the whole it is.
import type { DuckDBConnection } from '@duckdb/node-api';

const reportIntervalMs = 200;

/** Announces that the following work takes the progress from one fraction of the whole to another. */
export type Stage = (from: number, to: number) => void;

/** Divides the whole by the weights of its parts; each call of the result begins the next part. */
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

/** Enabled for every connection: the cost is not measurable. As pragmas, because the settings are locked. */
export async function countProgress(connection: DuckDBConnection): Promise<void> {
  await connection.run('PRAGMA enable_progress_bar');
  await connection.run('PRAGMA disable_print_progress_bar');
}

export class CallProgress {
  readonly #connection: () => DuckDBConnection | undefined;
  readonly #report: (fraction: number) => void;
  readonly #timer: NodeJS.Timeout;
  #from = 0;
  #to = 1;
  #reported: number | undefined;

  /** `connection`: returns the current connection of the work, if it has one. */
  constructor(connection: () => DuckDBConnection | undefined, report: (fraction: number) => void) {
    this.#connection = connection;
    this.#report = report;
    this.#timer = setInterval(() => this.#poll(), reportIntervalMs);
    this.#timer.unref();
  }

  readonly stage: Stage = (from, to) => {
    this.#from = from;
    this.#to = to;
    this.#reportChange(from);
  };

  end(): void {
    clearInterval(this.#timer);
  }

  #poll(): void {
    // Negative if DuckDB does not know, or nothing is running.
    const percentage = this.#connection()?.progress.percentage ?? -1;
    if (percentage >= 0) this.#reportChange(this.#from + ((this.#to - this.#from) * Math.min(100, percentage)) / 100);
  }

  /** A stage may begin lower than the counter of the one before it ended. */
  #reportChange(fraction: number): void {
    if (this.#reported !== undefined && fraction <= this.#reported) return;
    this.#reported = fraction;
    this.#report(fraction);
  }
}
