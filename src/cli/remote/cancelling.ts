// Cancels what runs on the server for a command that is stopped. The server may be frozen or unreachable: nobody waits long for it to say so.
import { TabulariumError } from '../../client/errors.ts';
import { CommandError } from './exit_codes.ts';

/** How long the server has to confirm, in milliseconds. */
const confirmedWithinMs = 3_000;

/** What was to be cancelled may go on: it says so, and how to cancel it later. */
export class NotCancelled extends CommandError {
  constructor(taskId: string, cause: unknown) {
    const reason =
      cause instanceof TabulariumError && cause.status !== 0
        ? `the server refuses to cancel (${cause.code}: ${cause.message})`
        : 'the server does not answer';
    super(
      'unavailable',
      `${reason}; task ${taskId} may still run: "tabularium tasks cancel ${taskId}" cancels it once the server answers`,
      { cause },
    );
  }
}

/** Throws NotCancelled unless the server confirms in time. A task that is not there any more has ended. */
export async function cancelTask(taskId: string, cancel: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
  try {
    await cancel(AbortSignal.timeout(confirmedWithinMs));
  } catch (error) {
    if (error instanceof TabulariumError && error.status === 404) return;
    throw new NotCancelled(taskId, error);
  }
}
