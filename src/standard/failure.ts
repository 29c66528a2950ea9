// Failure: the error type with a declared code. Its message and result are shown to the caller and contain no path, host, stack or SQL
// of other callers; its cause is only logged.
import { type Code, codes, type RequestOutcome } from './codes.ts';

/** One error in a request. `pointer` is a JSON pointer into the body, or `path:`/`query:`/`header:` and a name. */
export interface Violation {
  readonly pointer: string;
  readonly rule: string;
  readonly message: string;
}

/** The number of violations that a response lists; `violationCount` has the total when there are more. */
export const violationsMax = 100;

/** Request text in a failure is truncated to this length, because it can be megabytes long. A URI is limited by the header size. */
const quotedCharactersMax = 16_384;

const truncated = (text: string): string =>
  text.length > quotedCharactersMax ? `${text.slice(0, quotedCharactersMax).toWellFormed()}…` : text;

/** Truncates strings and the strings in violations; other parts of a result do not come from the request. */
function truncateStrings(value: unknown): unknown {
  if (typeof value === 'string') return truncated(value);
  return Array.isArray(value) && isViolation(value[0]) ? value.map(truncateViolation) : value;
}

const isViolation = (value: unknown): value is Violation =>
  typeof value === 'object' && value !== null && 'pointer' in value && 'rule' in value;

const truncateViolation = (violation: Violation): Violation => ({
  ...violation,
  pointer: truncated(violation.pointer),
  message: truncated(violation.message),
});

/** The violations in the result of a failure. */
export function violationsOf({ result: { violations } }: Failure): readonly Violation[] {
  return Array.isArray(violations) ? violations.filter(isViolation) : [];
}

export class Failure extends Error {
  override name = 'Failure';
  readonly code: Code;
  readonly result: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds: number | undefined;
  /**
   * For a 5xx, an outcome that is more precise than the default of the code; read it with `outcomeOf`. For a 4xx, `unknown` when a
   * statement was killed: its idempotency key is retained.
   */
  readonly outcome: RequestOutcome | undefined;

  constructor(
    code: Code,
    message: string,
    result: Readonly<Record<string, unknown>> = {},
    options: FailureOptions = {},
  ) {
    super(truncated(message), { cause: options.cause });
    this.code = code;
    this.result = Object.fromEntries(Object.entries(result).map(([field, value]) => [field, truncateStrings(value)]));
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.outcome = options.outcome;
  }
}

interface FailureOptions {
  readonly cause?: unknown;
  readonly retryAfterSeconds?: number | undefined;
  readonly outcome?: RequestOutcome | undefined;
}

/** The outcome of the request; undefined for a 4xx, which never changes anything. */
export function outcomeOf({ code, outcome }: Failure): RequestOutcome | undefined {
  const outcomeOfCode = codes[code].outcome;
  return outcomeOfCode && (outcome ?? outcomeOfCode);
}

/** The same failure with another outcome. Errors of other types and 4xx failures are returned unchanged. */
export function withOutcome<E>(error: E, outcome: RequestOutcome): E | Failure {
  if (!(error instanceof Failure) || outcomeOf(error) === undefined || error.outcome === outcome) return error;
  const { code, message, result, retryAfterSeconds, cause } = error;
  return new Failure(code, message, result, { cause, retryAfterSeconds, outcome });
}

/** INVALID_PARAMETER with one violation. `text`: the message of the failure, by default the pointer and the message of the violation. */
export function invalidParameter(
  pointer: string,
  rule: string,
  message: string,
  text = `${pointer} ${message}`,
): Failure {
  return violationsFailure('INVALID_PARAMETER', text, [{ pointer, rule, message }]);
}

export const objectNotFound = (category: string, name: string, message: string): Failure =>
  new Failure('OBJECT_NOT_FOUND', message, { category, name });

/** A Failure with the first `violationsMax` violations. */
export function violationsFailure(code: Code, message: string, violations: readonly Violation[]): Failure {
  return new Failure(code, message, {
    violations: violations.slice(0, violationsMax),
    ...(violations.length > violationsMax ? { violationCount: violations.length } : {}),
  });
}
