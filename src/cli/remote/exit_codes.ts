// The exit code and the message of a failure of a command that calls a server.
import { TabulariumError } from '../../client/errors.ts';
import { OperatorError } from '../../operator/operator_error.ts';
import { exitCodes, exitKindOf } from '../exit_codes.ts';
import type { HasFlag } from './failure_advice.ts';

export { CommandError, exitCodes } from '../exit_codes.ts';

export interface ShownFailure {
  readonly exitCode: number;
  readonly message: string;
  /** For `--json`. */
  readonly record: Readonly<Record<string, unknown>>;
}

/** `hasFlag`: of the command that failed. Undefined: not a failure that a user can correct, but a defect. */
export async function shownFailure(error: unknown, hasFlag: HasFlag = () => false): Promise<ShownFailure | undefined> {
  if (error instanceof OperatorError) {
    const { exitCode, message } = error;
    return { exitCode, message, record: { code: 'COMMAND_FAILED', message, result: {} } };
  }
  if (!(error instanceof TabulariumError)) return undefined;
  const { code, message, result, requestId } = error;
  const lines = [`${code}: ${message}`];
  for (const violation of violationsOf(result)) lines.push(`  ${violation}`);
  // It needs the declarations, which most commands do without.
  const { adviceHere } = await import('./failure_advice.ts');
  lines.push(adviceHere(error, hasFlag));
  if (error.status >= 500 && requestId !== undefined) lines.push(`request ${requestId} in the log of the server`);
  return {
    exitCode: exitCodes[exitKindOf(error)].code,
    message: lines.join('\n'),
    record: { code, message, result, ...(requestId === undefined ? {} : { requestId }) },
  };
}

function violationsOf({ violations }: TabulariumError['result']): string[] {
  if (!Array.isArray(violations)) return [];
  return (violations as { readonly pointer?: unknown; readonly message?: unknown }[]).map(
    ({ pointer, message }) => `${String(pointer ?? '')}: ${String(message ?? '')}`,
  );
}
