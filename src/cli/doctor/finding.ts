// What a check of `doctor` found.
import { OperatorError } from '../../operator/operator_error.ts';

export interface Finding {
  /** What was checked: `disk`. */
  readonly check: string;
  /** `skipped`: it could not be checked, for the reason of the message. */
  readonly state: 'good' | 'wrong' | 'skipped';
  /** The observation; if something is wrong, also what to do. */
  readonly message: string;
}

export const good = (check: string, message: string): Finding => ({ check, state: 'good', message });
export const wrong = (check: string, message: string): Finding => ({ check, state: 'wrong', message });
export const skipped = (check: string, message: string): Finding => ({ check, state: 'skipped', message });

/** The messages of errors that the operator can correct say what to do. Throws what is a defect. */
export function wrongBecause(check: string, error: unknown): Finding {
  if (error instanceof OperatorError) return wrong(check, error.message.replaceAll('\n', ' '));
  throw error;
}
