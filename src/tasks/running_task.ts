// A task that runs in this process: its abort signal and its progress, which is written to the store at most once a second.
import { dayMs } from '../model/durations.ts';
import type { Observe } from '../observe/observations.ts';
import { type ClockTimes, clockTimes } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { Amount, TaskRecord } from './task.ts';
import { type TaskRow, taskRecord, timeText } from './task_rows.ts';

const progressWriteEveryMs = 1000;
/** Estimates longer than a year are not shown. */
const expectedMsMax = 365 * dayMs;

export class RunningTask {
  readonly controller = new AbortController();
  readonly record: TaskRecord;
  /** Work that was running before it became a task: it does not count against the limit of runners. */
  readonly adopted: boolean;
  /** Resolves when the outcome is in the store; never rejects. */
  done: Promise<void> = Promise.resolve();
  /** Whether the store records that the task runs here. */
  isHeld = false;
  /** When the last successful write of its lease began. */
  leasedAt: ClockTimes;
  fraction: number | null = null;
  text: string | null = null;
  #expectedEndAt: number | null = null;
  /** The first reported progress; the time before it says nothing about the speed. */
  #start: { readonly time: number; readonly fraction: number } | undefined;
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
    this.leasedAt = clockTimes(parts.clock());
  }

  get expectedEndAt(): string | null {
    return this.#expectedEndAt === null ? null : timeText(this.#expectedEndAt);
  }

  readonly progress = (amount: Amount | number | null, text?: string): void => {
    if (this.#writtenAt === Number.POSITIVE_INFINITY) return;
    const isAmount = typeof amount === 'object' && amount !== null;
    const fraction = isAmount ? fractionOf(amount) : amount;
    this.fraction = fraction === null || Number.isNaN(fraction) ? null : Math.min(1, Math.max(0, fraction));
    if (text !== undefined) this.text = text;
    else if (isAmount) this.text = amountText(amount);
    this.#estimateEnd();
    const wait = this.#writtenAt + progressWriteEveryMs - performance.now();
    if (wait <= 0) void this.#write();
    else this.#timer ??= setTimeout(() => void this.#write(), wait).unref();
  };

  /** Stops writing progress. */
  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writtenAt = Number.POSITIVE_INFINITY;
  }

  /** Extrapolates the end from the speed so far. */
  #estimateEnd(): void {
    const now = this.#clock();
    this.#expectedEndAt = null;
    if (this.fraction === null) return;
    // Progress that decreases means that the work was restarted.
    if (!this.#start || this.fraction < this.#start.fraction) this.#start = { time: now, fraction: this.fraction };
    const gained = this.fraction - this.#start.fraction;
    const elapsedMs = now - this.#start.time;
    if (gained <= 0 || elapsedMs <= 0) return;
    const remainingMs = (elapsedMs * (1 - this.fraction)) / gained;
    if (remainingMs <= expectedMsMax) this.#expectedEndAt = Math.round(now + remainingMs);
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
        .where('leased_by', 'is not distinct from', this.#holder)
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
