// The one way to fail: a Failure with a declared code. Its message and result are for the caller and carry no path, host,
// stack or other caller's SQL; its cause is for the log only.
import type { Code } from './codes.ts';

/** One thing wrong with a request. `pointer` is a JSON pointer into the body, or `path:`/`query:`/`header:` and a name. */
export interface Violation {
  readonly pointer: string;
  readonly rule: string;
  readonly message: string;
}

/** How many violations an answer lists; what is beyond is counted in `violationCount`. */
export const violationsMax = 100;

export class Failure extends Error {
  override name = 'Failure';
  readonly code: Code;
  readonly result: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds: number | undefined;

  constructor(
    code: Code,
    message: string,
    result: Readonly<Record<string, unknown>> = {},
    options: { readonly cause?: unknown; readonly retryAfterSeconds?: number } = {},
  ) {
    super(message, { cause: options.cause });
    this.code = code;
    this.result = result;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** A Failure that lists what is wrong, the first `violationsMax` of it. */
export function violated(code: Code, message: string, violations: readonly Violation[]): Failure {
  return new Failure(code, message, {
    violations: violations.slice(0, violationsMax),
    ...(violations.length > violationsMax ? { violationCount: violations.length } : {}),
  });
}
