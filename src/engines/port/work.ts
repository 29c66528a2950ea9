// What any longer work of an engine is given: how to cancel it, where to report its progress, and what makes it happen once.

/** Called from time to time with the fraction of the work that is done, from 0 to 1. An engine that does not know never calls it. */
export type ReportProgress = (fraction: number) => void;

export interface WorkOptions {
  readonly signal: AbortSignal;
  readonly progress?: ReportProgress | undefined;
}

export interface StepOptions {
  readonly step: string;
  /**
   * The step of the change that this one undoes. A call with that step may still be under way, sent by a server that has lost the intent:
   * if it arrives after the undo, it does nothing. An engine whose processes end with their server receives no such call.
   */
  readonly undoes?: string | undefined;
  /**
   * The work of several steps of which one server at a time does any: a call of an earlier one that arrives after a later one began does nothing.
   * Absent: the step alone.
   */
  readonly work?: string | undefined;
  /**
   * Throws if another server has taken the change or the work over. An engine whose servers can receive calls late calls it when those of earlier attempts
   * can no longer change anything, before it changes anything. Absent: nobody else can do it.
   */
  readonly confirm?: (() => Promise<void>) | undefined;
}
