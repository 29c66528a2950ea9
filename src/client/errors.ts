// The failures that calls reject with: a class for each code of the service. See docs/codes.md for what each code means.
import type { Code, RequestOutcome } from '../standard/codes.ts';

export interface FailureDetails {
  /** The HTTP status; 0 if there was no response; 200 if a task has failed. */
  readonly status: number;
  readonly message: string;
  readonly result?: Readonly<Record<string, unknown>>;
  /** `x-service-request-id` of the answer, by which the server's log names the request. */
  readonly requestId?: string | undefined;
  readonly cause?: unknown;
}

export class TabulariumError extends Error {
  readonly code: string;
  readonly status: number;
  readonly result: Readonly<Record<string, unknown>>;
  readonly requestId: string | undefined;

  constructor(code: string, { status, message, result = {}, requestId, cause }: FailureDetails) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code;
    this.code = code;
    this.status = status;
    this.result = result;
    this.requestId = requestId;
  }

  /** What became of the request: a 4xx changed nothing; a 5xx says it; without an answer it is unknown. */
  get outcome(): RequestOutcome {
    if (this.status === 0) return 'unknown';
    return this.status >= 500 && this.result.outcome !== 'notApplied' ? 'unknown' : 'notApplied';
  }

  /** Whether the same request can succeed later, and sending it again cannot do it twice. */
  get retryable(): boolean {
    return this.status === 503 && this.outcome === 'notApplied';
  }
}

/** Codes that the client itself gives: no answer came, or one that is not from this service. */
type ClientCode = 'NO_ANSWER' | 'NO_ENVELOPE' | 'TASK_CANCELLED';

type ErrorClass<C extends string> = {
  new (details: FailureDetails): TabulariumError & { readonly code: C };
};

const classes = new Map<string, ErrorClass<string>>();

/** The class of a code; made when it is first needed, so that a code of a newer server has one too. */
function classOf(code: string): ErrorClass<string> {
  let found = classes.get(code);
  if (!found) {
    found = class extends TabulariumError {
      constructor(details: FailureDetails) {
        super(code, details);
      }
    };
    Object.defineProperty(found, 'name', { value: code });
    classes.set(code, found);
  }
  return found;
}

/** The class of each code: `error instanceof errors.OBJECT_NOT_FOUND`. */
export const errors = new Proxy({} as { readonly [C in Code | ClientCode]: ErrorClass<C> }, {
  get: (_target, code) => (typeof code === 'string' ? classOf(code) : undefined),
});

export const errorOf = (code: string, details: FailureDetails): TabulariumError => new (classOf(code))(details);
