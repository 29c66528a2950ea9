// The last run of each tab. It continues and retains its rows while another tab or room is shown.
import { useMemo, useSyncExternalStore } from 'react';
import type { Statement } from '../../results/run/messages.ts';
import { type RunState, StatementRun } from '../../results/run/statement_run.ts';
import type { TextError } from '../text/sql_editor.tsx';

export interface TabRun {
  readonly run: StatementRun;
  /** Where its statement begins in the text of the tab. */
  readonly start: number;
}

const runs = new Map<string, TabRun>();
const listeners = new Set<() => void>();

function notify(): void {
  for (const listener of listeners) listener();
}

export function startRun(tabId: string, statement: Statement, start: number): void {
  runs.get(tabId)?.run.close();
  runs.set(tabId, { run: new StatementRun(statement), start });
  notify();
}

/** Of tabs that are closed. */
export function closeRunsExcept(tabIds: ReadonlySet<string>): void {
  for (const [id, { run }] of runs) {
    if (tabIds.has(id)) continue;
    run.close();
    runs.delete(id);
  }
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};
const noRun = { subscribe: () => () => undefined, state: (): RunState | undefined => undefined };
const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);

export function useTabRun(tabId: string) {
  const current = useSyncExternalStore(subscribe, () => runs.get(tabId));
  const { subscribe: subscribeRun, state: read } = current?.run ?? noRun;
  const state = useSyncExternalStore<RunState | undefined>(subscribeRun, read);
  const error = useMemo((): TextError | undefined => {
    if (state?.kind !== 'failed' || !current) return undefined;
    const { message, result } = state.error;
    if (typeof result.line !== 'number') return undefined;
    return { start: current.start, line: result.line, column: numberOf(result.column), message };
  }, [state, current]);
  const isFailed = state?.kind === 'failed' && state.error.code !== 'TASK_CANCELLED';
  return {
    run: current?.run,
    isRunning: state?.kind === 'running',
    /** The statement whose error is shown. */
    failed: isFailed ? current?.run.statement : undefined,
    error,
  };
}
