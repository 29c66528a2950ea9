// Blocks of the rows of a view, around those in view: fetched from the worker of results when they are needed.
import type { Value } from '../../../../src/client/index.ts';
import type { Answers, Question, View } from '../run/messages.ts';

type Row = readonly Value[];
const blockRows = 200;
const blocksMax = 40;

/** The run whose rows they are. */
interface Source {
  ask(question: Extract<Question, { kind: 'rows' }>): Promise<Answers['rows']>;
}

export class RowBlocks {
  readonly #run: Source;
  readonly #view: View;
  readonly #onChange: () => void;
  readonly #onError: (error: unknown) => void;
  /** Of the view, as far as the page knows. */
  #rowCount = 0;
  /** In the order of their last use. */
  readonly #blocks = new Map<number, readonly Row[] | 'loading'>();

  constructor(run: Source, view: View, onChange: () => void, onError: (error: unknown) => void) {
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
    this.#rowCount = rowCount;
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
    const expected = () => Math.min(blockRows, this.#rowCount - from);
    const asked = expected();
    try {
      const rows = await this.#run.ask({ kind: 'rows', view: this.#view, from, to: from + blockRows });
      if (this.#blocks.has(block)) this.#blocks.set(block, rows);
      // More of its rows have arrived since it was asked for, while `need` saw that it was being fetched.
      if (this.#blocks.has(block) && rows.length < expected() && asked < expected()) void this.#fetch(block);
      this.#onChange();
    } catch (error) {
      this.#blocks.delete(block);
      this.#onError(error);
    }
  }
}
