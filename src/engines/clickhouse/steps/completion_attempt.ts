// How often it was tried to complete a write that was interrupted, so that attempts become rarer.
/** The attempts to complete one write. */
export interface CompletionAttempt {
  isRunning: boolean;
  pauseMs: number;
  /** Of `performance.now()`. */
  nextAt: number;
}
