// The exit codes of all commands, which docs/cli.md lists, and failures that have one of their own.
import { OperatorError } from '../operator/operator_error.ts';

export const exitCodes = {
  succeeded: { code: 0, meaning: 'the command did what it was asked to do' },
  failed: {
    code: 1,
    meaning:
      'the server refused the request (4xx), the command failed on this machine, or the check of a stopped server or of a backup found something',
  },
  usage: { code: 2, meaning: 'the command line, or a file that it names, is wrong; nothing was changed' },
  unavailable: {
    code: 3,
    meaning: 'the server cannot be reached or is temporarily unavailable (503); the same command may succeed later',
  },
  denied: { code: 4, meaning: 'not signed in, or not allowed (401, 403)' },
  taskFailed: { code: 5, meaning: 'a task failed or was cancelled' },
  differs: { code: 6, meaning: 'a check found something: rules that are broken, or a state that is not reached' },
  hungUp: { code: 129, meaning: 'the terminal was closed (SIGHUP); as for 130' },
  interrupted: { code: 130, meaning: 'interrupted with Ctrl-C; what runs on the server for the command is cancelled' },
  brokenPipe: { code: 141, meaning: 'the reader of the output ended first; as for 130' },
  terminated: { code: 143, meaning: 'ended by SIGTERM; as for 130' },
} as const;

export type ExitKind = keyof typeof exitCodes;

/** Of a call of a server that failed. `status`: as `TabulariumError` has it. */
export function exitKindOf({ status }: { readonly status: number }): ExitKind {
  if (status === 401 || status === 403) return 'denied';
  if (status === 0 || status === 503) return 'unavailable';
  return status === 200 ? 'taskFailed' : 'failed';
}

/** A failure with an exit code of its own. The message says what is wrong and what to do. */
export class CommandError extends OperatorError {
  override readonly name = 'CommandError';
  override readonly exitCode: number;

  constructor(kind: ExitKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCodes[kind].code;
  }
}
