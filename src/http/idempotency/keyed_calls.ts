// Calls with an idempotency key (rest-standard B6): how a request is identified, authorized again and carried out for replay.ts,
// and the answer to a change that was made and whose answer is lost. The steps that every call has are call.ts.
import type { IncomingMessage } from 'node:http';
import type { Authorizer } from '../../access/authorization/authorizer.ts';
import type { IdempotencyKeys } from '../../access/idempotency_keys.ts';
import type { Granted, Guard } from '../../model/principal.ts';
import { type Accepted, changes, type Outcome } from '../../standard/endpoint.ts';
import type { Answer } from '../../standard/envelope.ts';
import { Failure } from '../../standard/failure.ts';
import type { Route } from '../../standard/paths.ts';
import type { CallFailures } from '../call_failures.ts';
import type { Call, RequestContext } from '../request_context.ts';
import { fingerprintOf } from './fingerprint.ts';
import { type Completed, type EarlierAttempts, IdempotentRequests } from './replay.ts';

export interface PreferredReply {
  readonly id: string;
  readonly category: string;
  /** Of the member, where the id is that of the object that has it. */
  readonly name: string | undefined;
}

export type StoredReply = Accepted | { readonly outcome: 'found'; readonly record: object; readonly uri: string };

export interface KeyedCallsOptions<Context> {
  readonly idempotencyKeys: IdempotencyKeys;
  readonly earlier: EarlierAttempts;
  readonly access: { readonly authorizer: Pick<Authorizer, 'record' | 'requireStillAllowed'> };
  /** The record of an object, of a member of it, or of a task. */
  readonly recordOf: (wanted: PreferredReply, context: Context) => Promise<StoredReply | undefined>;
  readonly contextOf: (call: Call) => Context;
}

type Body = Record<string, unknown> | undefined;

/** The steps of a call, in the order in which a keyed one takes them. */
export interface CallSteps {
  authorise(): Promise<void> | undefined;
  /** Throws WAREHOUSE_BUSY. */
  requirePlace(): Promise<void>;
  body(): Promise<Body>;
  prepare(body: Body): Promise<PreparedCall>;
}

export interface PreparedCall {
  readonly run: () => Promise<Outcome>;
  readonly answerOf: (outcome: Outcome) => Answer;
}

interface KeyedCall<Context> {
  readonly incoming: IncomingMessage;
  readonly route: Route<Context>;
  readonly call: RequestContext;
  readonly key: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly steps: CallSteps;
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

  /** The work is done once, however often the request is sent. */
  async answer({ incoming, route, call, key, query, steps }: KeyedCall<Context>): Promise<Answer> {
    const { authorizer } = this.#options.access;
    const { principal } = call;
    const granted = authorizer.record(principal);
    const refusal = await this.#refusalOf(steps, principal.id, key);
    if (refusal === undefined) await this.#requirePlace(steps, principal.id, key);
    const body = await steps.body().catch((error) => Promise.reject(refusal ?? error));
    const [path = ''] = (incoming.url as string).split('?', 1);
    const fingerprint = await fingerprintOf({ method: incoming.method as string, path, route, query, body });
    const { run, answerOf } = await steps.prepare(body);
    const keyed = {
      owner: principal.id,
      key,
      fingerprint,
      secretFields: route.endpoint.secretFields ?? [],
      granted,
      authorise: async (before: readonly Granted[]) => {
        if (refusal !== undefined && before.length === 0) throw refusal;
        await authorizer.requireStillAllowed(principal, before);
      },
      run: async (guard: Guard) => {
        if (refusal !== undefined) throw refusal;
        call.actor.guard = guard;
        return performed(await run(), route, answerOf);
      },
      again: async (guard: Guard, objectId: string | undefined) => {
        call.actor.guard = guard;
        return answerOf(await this.#again(route, call, objectId, nameIn(route, body)));
      },
    };
    try {
      return await this.#replays.answer(keyed);
    } catch (error) {
      if (error instanceof Failure && error.code === 'IDEMPOTENCY_KEY_REUSED') throw refusal ?? error;
      // An earlier attempt with the key may have been applied.
      throw this.#failures.withOutcome(error, call.requestId, 'unknown');
    }
  }

  /**
   * Why the request may not be made, found before the body is read. Thrown unless the key was sent before: the object may have another
   * name since, and its first answer then is for who may still do with it what was done.
   */
  async #refusalOf(steps: CallSteps, owner: string, key: string): Promise<unknown> {
    try {
      await steps.authorise();
      return undefined;
    } catch (error) {
      if (await this.#replays.isKnown(owner, key)) return error;
      throw error;
    }
  }

  /** A request that was sent before is not refused here: it may be done, and needs no place then. */
  async #requirePlace(steps: CallSteps, owner: string, key: string): Promise<void> {
    try {
      await steps.requirePlace();
    } catch (error) {
      if (!(await this.#replays.isKnown(owner, key))) throw error;
    }
  }

  /** The change was made before, and its answer is lost: as far as what exists now shows it. */
  async #again(
    { endpoint, category }: Route<Context>,
    call: RequestContext,
    id: string | undefined,
    name: string | undefined,
  ): Promise<Outcome> {
    const { contextOf, recordOf } = this.#options;
    if (endpoint.verb === 'delete') return { outcome: 'deleted', deleted: true };
    const shown = id === undefined ? undefined : await recordOf({ id, category: category.name, name }, contextOf(call));
    if (!shown)
      throw new Failure('OBJECT_NOT_FOUND', 'the change was made before; what it made or changed is gone since', {
        category: category.name,
      });
    const isNew = shown.outcome === 'found' && (endpoint.verb === 'create' || endpoint.creates);
    return isNew ? { outcome: 'created', record: shown.record, created: true, uri: shown.uri } : shown;
  }
}

function performed<Context>(
  outcome: Outcome,
  { endpoint }: Route<Context>,
  answerOf: (outcome: Outcome) => Answer,
): Completed {
  const answer = answerOf(outcome);
  if (outcome.outcome === 'listed') return { answer, stored: undefined };
  if (outcome.outcome !== 'done') return { answer, stored: answer };
  const { stored = changes(endpoint) ? outcome.result : null } = outcome;
  if (stored === null) return { answer, stored: undefined };
  return { answer, stored: answerOf({ outcome: 'done', result: stored }) };
}

/** What the object of a request is called when it is done, as far as the request says. */
function nameIn<Context>({ path, category }: Route<Context>, body: Body): string | undefined {
  const { newName, name } = (body ?? {}) as { readonly newName?: string; readonly name?: string };
  return newName ?? name ?? path[category.parameter];
}
