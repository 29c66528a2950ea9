// A task while it runs in this process: its signal, and its progress on the way to the store, which is not written to more
// than once a second.
import type { Observe } from '../observe/observations.ts';
import type { Store } from '../store/store.ts';
import type { Amount, TaskRecord } from './task.ts';
import { type TaskRow, taskRecord, timeText } from './task_rows.ts';

export const progressWriteEveryMs = 1000;
/** Further than a year no estimate looks. */
const expectedMsMax = 365 * 86_400_000;

export class RunningTask {
  readonly controller = new AbortController();
  readonly record: TaskRecord;
  /** Work that ran before it became a task: it takes no runner's place. */
  readonly adopted: boolean;
  /** Resolves when the outcome is in the store; never rejects. */
  done: Promise<void> = Promise.resolve();
  /** The store says that it runs here. */
  isHeld = false;
  fraction: number | null = null;
  text: string | null = null;
  #expectedEndAt: number | null = null;
  /** Where it was when it first said so: what came before tells nothing of its speed. */
  #from: { readonly at: number; readonly fraction: number } | undefined;
  readonly #store: Store;
  readonly #observe: Observe;
  #timer: NodeJS.Timeout | undefined;
  #writtenAt = Number.NEGATIVE_INFINITY;

  readonly #clock: () => number;
  readonly #holder: string | null;

  constructor(
    row: TaskRow,
    adopted: boolean,
    parts: { readonly store: Store; readonly observe: Observe; readonly clock: () => number },
  ) {
    this.record = taskRecord(row);
    this.#holder = row.leased_by;
    this.adopted = adopted;
    this.#store = parts.store;
    this.#observe = parts.observe;
    this.#clock = parts.clock;
  }

  get expectedEndAt(): string | null {
    return this.#expectedEndAt === null ? null : timeText(this.#expectedEndAt);
  }

  readonly progress = (at: Amount | number | null, text?: string): void => {
    if (this.#writtenAt === Number.POSITIVE_INFINITY) return;
    const isAmount = typeof at === 'object' && at !== null;
    const fraction = isAmount ? fractionOf(at) : at;
    this.fraction = fraction === null || Number.isNaN(fraction) ? null : Math.min(1, Math.max(0, fraction));
    if (text !== undefined) this.text = text;
    else if (isAmount) this.text = amountText(at);
    this.#expect();
    const wait = this.#writtenAt + progressWriteEveryMs - performance.now();
    if (wait <= 0) void this.#write();
    else this.#timer ??= setTimeout(() => void this.#write(), wait).unref();
  };

  /** Nothing is written after this. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writtenAt = Number.POSITIVE_INFINITY;
  }

  /** It will go on as fast as it has. */
  #expect(): void {
    const at = this.#clock();
    this.#expectedEndAt = null;
    if (this.fraction === null) return;
    // Where it goes back, its work was begun again.
    if (!this.#from || this.fraction < this.#from.fraction) this.#from = { at, fraction: this.fraction };
    const made = this.fraction - this.#from.fraction;
    const passedMs = at - this.#from.at;
    if (made <= 0 || passedMs <= 0) return;
    const leftMs = (passedMs * (1 - this.fraction)) / made;
    if (leftMs <= expectedMsMax) this.#expectedEndAt = Math.round(at + leftMs);
  }

  async #write(): Promise<void> {
    this.#writtenAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      await this.#store.db
        .updateTable('tasks')
        .set({ progress: this.fraction, progress_text: this.text, expected_end_at: this.#expectedEndAt })
        .where('task_id', '=', this.record.taskId)
        .where('state', 'in', ['running', 'cancelling'])
        .where('leased_by', 'is', this.#holder)
        .execute();
    } catch (error) {
      this.#observe({ kind: 'backgroundError', what: 'save the progress of a task', error });
    }
  }
}

function fractionOf({ done, total }: Amount): number | null {
  return total === null || total <= 0 ? null : done / total;
}

function amountText({ done, total, unit }: Amount): string {
  return total === null ? `${done} ${unit}` : `${done} of ${total} ${unit}`;
}
