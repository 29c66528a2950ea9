// The rows of a statement with a small result, in the page; the statement is cancelled by a signal.
import type { Value } from '../../../../src/client/index.ts';
import type { Statement, View } from './messages.ts';
import { StatementRun } from './statement_run.ts';

const whole: View = { filters: [] };

/** Rejects with the error of the statement, and with the signal's reason once it was cancelled. */
export async function rowsOfStatement(
  statement: Statement,
  signal: AbortSignal,
): Promise<readonly (readonly Value[])[]> {
  signal.throwIfAborted();
  const run = new StatementRun(statement);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const unsubscribe = run.subscribe(() => {
    const state = run.state();
    if (state.kind === 'succeeded') resolve(state.summary.rowCount);
    if (state.kind === 'failed') reject(state.error);
  });
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await run.ask({ kind: 'rows', view: whole, from: 0, to: await promise });
  } finally {
    signal.removeEventListener('abort', abort);
    unsubscribe();
    // Cancels it if it still runs.
    run.close();
  }
}
