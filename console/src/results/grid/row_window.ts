// The rows of a run that the page holds; a component renders again when more of them arrive.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { View } from '../run/messages.ts';
import type { StatementRun } from '../run/statement_run.ts';
import { RowBlocks } from './row_blocks.ts';

/** The window for a run and a view; the component renders again when rows arrive. */
export function useRowWindow(run: StatementRun, view: View) {
  const [, setVersion] = useState(0);
  const frame = useRef(0);
  // Blocks that arrive together are rendered together.
  const renderSoon = useCallback(() => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => setVersion((version) => version + 1));
  }, []);
  const [error, setError] = useState<unknown>();
  const rows = useMemo(() => new RowBlocks(run, view, renderSoon, setError), [run, view, renderSoon]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an error belongs to the window that had it
  useEffect(() => setError(undefined), [rows]);
  return { rows, error };
}
