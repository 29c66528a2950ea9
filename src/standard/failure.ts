// The one way to fail: a Failure with a declared code. Its message and result are for the caller and carry no path, host,
// stack or other caller's SQL; its cause is for the log only.
import { type Code, codes, type RequestOutcome } from './codes.ts';

/** One thing wrong with a request. `pointer` is a JSON pointer into the body, or `path:`/`query:`/`header:` and a name. */
export interface Violation {
  readonly pointer: string;
  readonly rule: string;
  readonly message: string;
}

/** How many violations an answer lists; what is beyond is counted in `violationCount`. */
export const violationsMax = 100;

/** A text of the request that a failure repeats is cut here: it may have megabytes. No URI of a request is longer than its headers. */
const repeatedCharactersMax = 16_384;

const shortened = (text: string): string =>
  text.length > repeatedCharactersMax ? `${text.slice(0, repeatedCharactersMax).toWellFormed()}…` : text;

/** Texts, and those of violations; what else a result has is not the caller's. */
function bounded(value: unknown): unknown {
  if (typeof value === 'string') return shortened(value);
  return Array.isArray(value) && isViolation(value[0]) ? value.map(boundedViolation) : value;
}

const isViolation = (value: unknown): value is Violation =>
  typeof value === 'object' && value !== null && 'pointer' in value && 'rule' in value;

const boundedViolation = (violation: Violation): Violation => ({
  ...violation,
  pointer: shortened(violation.pointer),
  message: shortened(violation.message),
});

export class Failure extends Error {
  override name = 'Failure';
  readonly code: Code;
  readonly result: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds: number | undefined;
  /**
   * Of a 5xx, where it is known better than the code says; read it with `outcomeOf`. Of a 4xx, `unknown` where a statement was killed:
   * its idempotency key stays.
   */
  readonly outcome: RequestOutcome | undefined;

  constructor(
    code: Code,
    message: string,
    result: Readonly<Record<string, unknown>> = {},
    options: FailureOptions = {},
  ) {
    super(shortened(message), { cause: options.cause });
    this.code = code;
    this.result = Object.fromEntries(Object.entries(result).map(([field, value]) => [field, bounded(value)]));
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.outcome = options.outcome;
  }
}

interface FailureOptions {
  readonly cause?: unknown;
  readonly retryAfterSeconds?: number | undefined;
  readonly outcome?: RequestOutcome | undefined;
}

/** What became of the request; undefined for a failure that blames it (4xx), which never changes anything. */
export function outcomeOf({ code, outcome }: Failure): RequestOutcome | undefined {
  const outcomeOfCode = codes[code].outcome;
  return outcomeOfCode && (outcome ?? outcomeOfCode);
}

/** The same failure with another outcome. Errors that are no Failure, and failures that blame the request, stay what they are. */
export function withOutcome<E>(error: E, outcome: RequestOutcome): E | Failure {
  if (!(error instanceof Failure) || outcomeOf(error) === undefined || error.outcome === outcome) return error;
  const { code, message, result, retryAfterSeconds, cause } = error;
  return new Failure(code, message, result, { cause, retryAfterSeconds, outcome });
}

/** A Failure that lists what is wrong, the first `violationsMax` of it. */
export function violated(code: Code, message: string, violations: readonly Violation[]): Failure {
  return new Failure(code, message, {
    violations: violations.slice(0, violationsMax),
    ...(violations.length > violationsMax ? { violationCount: violations.length } : {}),
  });
}
