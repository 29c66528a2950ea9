// Writes rows to files, and begins the next file when one has reached its size.

export interface RowFiles {
  /** `rows`: JSON arrays, each with `,\n` after it. */
  add(rows: string): Promise<void>;
  /** Completes the last file; there is at least one. */
  finish(): Promise<void>;
  /** Must be called, also after errors. */
  close(): Promise<void>;
}
