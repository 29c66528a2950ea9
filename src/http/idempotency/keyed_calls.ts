// Requests with an idempotency key (rest-standard B6): identifies, authorizes and runs a request for replay.ts, and builds the response
// to an applied change whose response was lost. See request_pipeline.ts for the steps of every request.
import type { IncomingMessage } from 'node:http';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { IdempotencyKeys } from '../../access/idempotency_keys.ts';
import type { Granted, Guard } from '../../model/principal.ts';
import { type Accepted, isMutation, type Outcome } from '../../standard/endpoint.ts';
import type { ApiResponse } from '../../standard/envelope.ts';
import { Failure, withOutcome } from '../../standard/failure.ts';
import type { Route } from '../../standard/paths.ts';
import type { CallFailures } from '../call_failures.ts';
import { AlreadyForwarded } from '../forwarding/request_forwarding.ts';
import type { Call, RequestContext } from '../request_context.ts';
import { fingerprintOf } from './fingerprint.ts';
import { type Completed, type EarlierAttempts, IdempotentRequests } from './replay.ts';

export interface RecordIdentity {
  readonly id: string;
  readonly category: string;
  /** The name of a member, when the id is that of the object that contains it. */
  readonly name: string | undefined;
}

export type CurrentRecord = Accepted | { readonly outcome: 'found'; readonly record: object; readonly uri: string };

export interface KeyedCallsOptions<Context> {
  readonly idempotencyKeys: IdempotencyKeys;
  readonly earlier: EarlierAttempts;
  readonly access: { readonly authorizer: Pick<Authorizer, 'record' | 'requireStillAllowed'> };
  /** Reads the record of an object, of a member of it, or of a task. */
  readonly recordOf: (wanted: RecordIdentity, context: Context) => Promise<CurrentRecord | undefined>;
  readonly contextOf: (call: Call) => Context;
}

type Body = Record<string, unknown> | undefined;

/** The steps of a request, in the order in which a request with a key takes them. */
export interface CallSteps {
  authorize(): Promise<void> | undefined;
  authenticateAgain(): Promise<void> | undefined;
  /** Throws WAREHOUSE_BUSY. */
  requireQueueCapacity(): Promise<void>;
  /** Receives the bytes of the body. Returns a function that parses and checks them. */
  receive(): Promise<() => Promise<Body>>;
  prepare(body: Body): Promise<PreparedCall>;
}

export interface PreparedCall {
  readonly run: () => Promise<Outcome>;
  readonly successResponse: (outcome: Outcome) => ApiResponse;
}

interface KeyedCall<Context> {
  readonly incoming: IncomingMessage;
  readonly route: Route<Context>;
  readonly call: RequestContext;
  readonly key: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly steps: CallSteps;
}

/** Whether the key has been compared with its earlier uses, which determines the outcome of a failure from then on. */
interface Progress {
  isBegun: boolean;
}

interface Admitted {
  readonly granted: readonly Granted[];
  readonly refusal: unknown;
  readonly progress: Progress;
}

export class KeyedCalls<Context> {
  readonly #options: KeyedCallsOptions<Context>;
  readonly #replays: IdempotentRequests;
  readonly #failures: CallFailures;

  constructor(options: KeyedCallsOptions<Context>, failures: CallFailures) {
    this.#options = options;
    this.#replays = new IdempotentRequests(options.idempotencyKeys, options.earlier);
    this.#failures = failures;
  }

  /** Applies the request once, however often it is sent. */
  async respond(keyedCall: KeyedCall<Context>): Promise<ApiResponse> {
    const progress = { isBegun: false };
    try {
      return await this.#attempt(keyedCall, progress);
    } catch (error) {
      if (progress.isBegun || error instanceof AlreadyForwarded) throw error;
      const { call, key } = keyedCall;
      const failure = this.#failures.withOutcome(error, call.requestId, 'notApplied');
      if (failure.outcome !== 'notApplied') throw failure;
      // An earlier attempt with the key may have been applied.
      const isKnown = await this.#replays.isKnown(call.principal.id, key).catch(() => true);
      throw isKnown ? withOutcome(failure, 'unknown') : failure;
    }
  }

  async #attempt(keyedCall: KeyedCall<Context>, progress: Progress): Promise<ApiResponse> {
    const { call, key, steps } = keyedCall;
    const { principal } = call;
    const granted = this.#options.access.authorizer.record(principal);
    const refusal = await this.#refusalOf(steps, principal.id, key);
    if (refusal === undefined) await this.#requireQueueCapacity(steps, principal.id, key);
    const refused = (error: unknown) => {
      throw error instanceof AlreadyForwarded ? error : (refusal ?? error);
    };
    const parse = await steps.receive().catch(refused);
    // A large body is parsed only then, because it holds a thread until it is used.
    return this.#replays.inTurn(principal.id, key, async () =>
      this.#respond(keyedCall, await parse().catch(refused), { granted, refusal, progress }),
    );
  }

  async #respond(
    { incoming, route, call, key, query, steps }: KeyedCall<Context>,
    body: Body,
    { granted, refusal, progress }: Admitted,
  ): Promise<ApiResponse> {
    const { authorizer } = this.#options.access;
    const { principal } = call;
    const [path = ''] = (incoming.url as string).split('?', 1);
    const fingerprint = await fingerprintOf({ method: incoming.method as string, path, route, query, body });
    const { run, successResponse } = await steps.prepare(body);
    const keyed = {
      owner: principal.id,
      key,
      fingerprint,
      secretFields: route.endpoint.secretFields ?? [],
      granted,
      authorize: async (granted: readonly Granted[]) => {
        if (refusal !== undefined && granted.length === 0) throw refusal;
        await steps.authenticateAgain();
        await authorizer.requireStillAllowed(principal, granted);
      },
      run: async (guard: Guard) => {
        if (refusal !== undefined) throw refusal;
        call.actor.guard = guard;
        return completedOf(await run(), route, successResponse);
      },
      again: async (guard: Guard, objectId: string | undefined) => {
        call.actor.guard = guard;
        return successResponse(await this.#reconstruct(route, call, objectId, resultingName(route, body)));
      },
    };
    progress.isBegun = true;
    try {
      return await this.#replays.respond(keyed);
    } catch (error) {
      if (error instanceof Failure && error.code === 'IDEMPOTENCY_KEY_REUSED') throw refusal ?? error;
      // An earlier attempt with the key may have been applied.
      throw this.#failures.withOutcome(error, call.requestId, 'unknown');
    }
  }

  /**
   * Authorizes the request before the body is read. Returns the refusal instead of throwing it when the key is already in use: the object
   * may have been renamed since, and a caller who still has the required privileges on it may receive the first response.
   */
  async #refusalOf(steps: CallSteps, owner: string, key: string): Promise<unknown> {
    try {
      await steps.authorize();
      return undefined;
    } catch (error) {
      if (await this.#replays.isKnown(owner, key)) return error;
      throw error;
    }
  }

  /** A request whose key is already in use is not refused: it may have been applied, and then needs no place in the queue. */
  async #requireQueueCapacity(steps: CallSteps, owner: string, key: string): Promise<void> {
    try {
      await steps.requireQueueCapacity();
    } catch (error) {
      if (!(await this.#replays.isKnown(owner, key))) throw error;
    }
  }

  /** The response to an applied change whose response was lost, derived from the current state. */
  async #reconstruct(
    { endpoint, category }: Route<Context>,
    call: RequestContext,
    id: string | undefined,
    name: string | undefined,
  ): Promise<Outcome> {
    const { contextOf, recordOf } = this.#options;
    if (endpoint.verb === 'delete') return { outcome: 'deleted', deleted: true };
    const current =
      id === undefined ? undefined : await recordOf({ id, category: category.name, name }, contextOf(call));
    if (!current)
      throw new Failure('OBJECT_NOT_FOUND', 'the change was already applied, but its object has been deleted since', {
        category: category.name,
      });
    const isNew = current.outcome === 'found' && (endpoint.verb === 'create' || endpoint.creates);
    return isNew ? { outcome: 'created', record: current.record, created: true, uri: current.uri } : current;
  }
}

function completedOf<Context>(
  outcome: Outcome,
  { endpoint }: Route<Context>,
  successResponse: (outcome: Outcome) => ApiResponse,
): Completed {
  const response = successResponse(outcome);
  if (outcome.outcome === 'listed') return { response, stored: undefined };
  if (outcome.outcome !== 'done') return { response, stored: response };
  const { stored = isMutation(endpoint) ? outcome.result : null } = outcome;
  if (stored === null) return { response, stored: undefined };
  return { response, stored: successResponse({ outcome: 'done', result: stored }) };
}

/** The name of the object after the request, as far as the request determines it. */
function resultingName<Context>({ path, category }: Route<Context>, body: Body): string | undefined {
  const { newName, name } = (body ?? {}) as { readonly newName?: string; readonly name?: string };
  return newName ?? name ?? path[category.parameter];
}
