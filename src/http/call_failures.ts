// Turns errors thrown during a call into failures that the client may see. Every 5xx states whether the request was applied (rest-standard
// B2).
import { randomUUID } from 'node:crypto';
import type { Actor } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import type { RequestOutcome } from '../standard/codes.ts';
import { type Endpoint, isReadOnly } from '../standard/endpoint.ts';
import { Failure, outcomeOf, withOutcome } from '../standard/failure.ts';
import { StoreUnchanged } from '../store/store_errors.ts';

export class CallFailures {
  readonly #observe: Observe;

  constructor(observe: Observe) {
    this.#observe = observe;
  }

  /** A 5xx gets the outcome of the whole request, which the failed step alone does not determine. */
  ofHandler<Context>(error: unknown, endpoint: Endpoint<Context>, actor: Actor): Failure {
    const { requestId, changed, changing, writing } = actor;
    const failure = this.#failureOf(error, requestId as string);
    if (isReadOnly(endpoint)) return withOutcome(failure, 'notApplied');
    // An unexpected error may leave changes behind, but not before the first write.
    if (!(error instanceof Failure) && !changed && !writing) return withOutcome(failure, 'notApplied');
    if (error instanceof StoreUnchanged && !changed && !changing) return withOutcome(failure, 'notApplied');
    return withOutcome(failure, changed ? 'unknown' : (outcomeOf(failure) ?? 'notApplied'));
  }

  /** `outcome` applies to failures that have none of their own. */
  withOutcome(error: unknown, requestId: string, outcome: RequestOutcome): Failure {
    const failure = this.#failureOf(error, requestId);
    return failure.outcome === undefined ? withOutcome(failure, outcome) : failure;
  }

  #failureOf(error: unknown, requestId: string): Failure {
    if (error instanceof Failure) return error;
    const errorId = randomUUID();
    this.#observe({ kind: 'internalError', requestId, errorId, error });
    return new Failure('INTERNAL_ERROR', 'an unexpected error occurred in the service; report the errorId', {
      errorId,
    });
  }
}
