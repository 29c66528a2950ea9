// The exit codes of the commands that call a server, and the code and message of a failure. docs/cli.md lists them.
import { adviceFor } from '../../client/advice.ts';
import { TabulariumError } from '../../client/errors.ts';
import { OperatorError } from '../../operator/operator_error.ts';
import { codes } from '../../standard/codes.ts';

export const exitCodes = {
  succeeded: { code: 0, meaning: 'the command did what it was asked to do' },
  failed: { code: 1, meaning: 'the server refused the request (4xx), or the command failed on this machine' },
  usage: { code: 2, meaning: 'the command line, or a file that it names, is wrong; nothing was changed' },
  unavailable: {
    code: 3,
    meaning: 'the server cannot be reached or is temporarily unavailable (503); the same command may succeed later',
  },
  denied: { code: 4, meaning: 'not signed in, or not allowed (401, 403)' },
  taskFailed: { code: 5, meaning: 'a task failed or was cancelled' },
  differs: { code: 6, meaning: 'a check found something: rules that are broken, or a state that is not reached' },
  interrupted: { code: 130, meaning: 'interrupted with Ctrl-C; what runs on the server for the command is cancelled' },
  brokenPipe: { code: 141, meaning: 'the reader of the output ended first' },
} as const;

/** A failure with an exit code of its own. The message says what is wrong and what to do. */
export class CommandError extends OperatorError {
  override readonly name = 'CommandError';
  override readonly exitCode: number;

  constructor(kind: keyof typeof exitCodes, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCodes[kind].code;
  }
}

export interface ShownFailure {
  readonly exitCode: number;
  readonly message: string;
  /** For `--json`. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** Undefined: not a failure that a user can correct, but a defect. */
export function shownFailure(error: unknown): ShownFailure | undefined {
  if (error instanceof OperatorError) {
    const { exitCode, message } = error;
    return { exitCode, message, record: { code: 'COMMAND_FAILED', message, result: {} } };
  }
  if (!(error instanceof TabulariumError)) return undefined;
  const { code, message, result, requestId } = error;
  const lines = [`${code}: ${message}`];
  for (const violation of violationsOf(result)) lines.push(`  ${violation}`);
  lines.push(Object.hasOwn(codes, code) ? codes[code as keyof typeof codes].client : adviceFor(error));
  if (error.status >= 500 && requestId !== undefined) lines.push(`request ${requestId} in the log of the server`);
  return {
    exitCode: exitCodes[kindOf(error)].code,
    message: lines.join('\n'),
    record: { code, message, result, ...(requestId === undefined ? {} : { requestId }) },
  };
}

function kindOf({ status }: TabulariumError): keyof typeof exitCodes {
  if (status === 401 || status === 403) return 'denied';
  if (status === 0 || status === 503) return 'unavailable';
  return status === 200 ? 'taskFailed' : 'failed';
}

function violationsOf({ violations }: TabulariumError['result']): string[] {
  if (!Array.isArray(violations)) return [];
  return (violations as { readonly pointer?: unknown; readonly message?: unknown }[]).map(
    ({ pointer, message }) => `${String(pointer ?? '')}: ${String(message ?? '')}`,
  );
}
