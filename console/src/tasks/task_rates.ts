// How fast running tasks advance: worked out from what this page has read of them.
import type { TaskRecord } from '../../../src/client/index.ts';
import { amountOf, formatAmount, isActive } from './task_text.ts';

interface Sample {
  readonly at: number;
  readonly done: number;
  /** Undefined: `done` is a fraction of the whole. */
  readonly unit: string | undefined;
}

/** The rate is of the last while, so that it follows a task that becomes slower. */
const windowMs = 20_000;
const samplesOf = new Map<string, readonly Sample[]>();

/** To be called with each record that was read. */
export function observeProgress(task: TaskRecord, at = Date.now()): void {
  const sample = task.state === 'running' ? sampleOf(task, at) : undefined;
  if (!sample) {
    if (!isActive(task)) samplesOf.delete(task.taskId);
    return;
  }
  const before = samplesOf.get(task.taskId) ?? [];
  // Progress that decreases means that the work began again.
  const isContinued = before.every(({ done, unit }) => done <= sample.done && unit === sample.unit);
  samplesOf.set(task.taskId, [...(isContinued ? before.filter((one) => at - one.at < windowMs) : []), sample]);
}

function sampleOf({ progress, progressText }: TaskRecord, at: number): Sample | undefined {
  const amount = amountOf(progressText);
  if (amount) return { at, done: amount.done, unit: amount.unit };
  return progress === null ? undefined : { at, done: progress, unit: undefined };
}

/** `2.1 MB/s`; undefined while it is not known. */
export function rateText(taskId: string): string | undefined {
  const samples = samplesOf.get(taskId) ?? [];
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || last.at - first.at < 1000 || last.done <= first.done) return undefined;
  const rate = ((last.done - first.done) / (last.at - first.at)) * 1000;
  if (last.unit !== undefined) return `${formatAmount(rate, last.unit)}/s`;
  return rate >= 0.01 ? `${(rate * 100).toFixed(1)} %/s` : `${(rate * 6000).toFixed(1)} %/min`;
}
