/** The attempts to complete one write. */
export interface CompletionAttempt {
  isRunning: boolean;
  pauseMs: number;
  /** Of `performance.now()`. */
  nextAt: number;
}
