// The rows of a run that the page holds: blocks around those in view, fetched from the worker when they are needed.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import type { Value } from '../../../../src/client/index.ts';
import type { View } from '../run/messages.ts';
import type { StatementRun } from '../run/statement_run.ts';

type Row = readonly Value[];
const blockRows = 200;
const blocksMax = 40;

class RowWindow {
  readonly #run: StatementRun;
  readonly #view: View;
  readonly #onChange: () => void;
  readonly #onError: (error: unknown) => void;
  /** In the order of their last use. */
  readonly #blocks = new Map<number, readonly Row[] | 'loading'>();

  constructor(run: StatementRun, view: View, onChange: () => void, onError: (error: unknown) => void) {
    this.#run = run;
    this.#view = view;
    this.#onChange = onChange;
    this.#onError = onError;
  }

  /** Undefined while it is fetched. */
  row(index: number): Row | undefined {
    const block = this.#blocks.get(Math.floor(index / blockRows));
    return block === 'loading' ? undefined : block?.[index % blockRows];
  }

  /** `rowCount`: of the view so far. A block that was fetched before all of its rows had arrived is fetched again. */
  need(from: number, to: number, rowCount: number): void {
    for (let block = Math.floor(from / blockRows); block * blockRows < to; block++) {
      const known = this.#blocks.get(block);
      this.#blocks.delete(block);
      this.#blocks.set(block, known ?? 'loading');
      const expected = Math.min(blockRows, rowCount - block * blockRows);
      if (known === undefined || (known !== 'loading' && known.length < expected)) void this.#fetch(block);
    }
    for (const block of this.#blocks.keys()) {
      if (this.#blocks.size <= blocksMax) break;
      this.#blocks.delete(block);
    }
  }

  async #fetch(block: number): Promise<void> {
    const from = block * blockRows;
    try {
      const rows = await this.#run.ask({ kind: 'rows', view: this.#view, from, to: from + blockRows });
      if (this.#blocks.has(block)) this.#blocks.set(block, rows);
      this.#onChange();
    } catch (error) {
      this.#blocks.delete(block);
      this.#onError(error);
    }
  }
}

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
  const rows = useMemo(() => new RowWindow(run, view, renderSoon, setError), [run, view, renderSoon]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an error belongs to the window that had it
  useEffect(() => setError(undefined), [rows]);
  return { rows, error };
}
