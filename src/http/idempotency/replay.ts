// Replays requests with an idempotency key: applied once, answered as often as sent (rest-standard B6). See access/idempotency_keys.ts
// for the stored state.
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Begun,
  type CompletedChange,
  type IdempotencyKeys,
  idempotencyKeyForm,
  type RetainedStep,
  type StoredResponse,
} from '../../access/idempotency_keys.ts';
import { withTimeout } from '../../model/concurrency/bounded_waits.ts';
import type { AppliedWrite, Granted, Guard } from '../../model/principal.ts';
import { type Code, codes, type SuccessStatus } from '../../standard/codes.ts';
import { acceptsIdempotencyKey, type Endpoint } from '../../standard/endpoint.ts';
import { type ApiResponse, failureResponse } from '../../standard/envelope.ts';
import { Failure, outcomeOf, withOutcome } from '../../standard/failure.ts';
import { concatenate } from '../../standard/record_body.ts';
import { idempotencyKeyHeader } from '../request_headers.ts';

/** A completed request: its response, and the one stored for retries; undefined: a retry runs again. */
export interface Completed {
  readonly response: ApiResponse;
  readonly stored: ApiResponse | undefined;
}

/** A request with an idempotency key and the functions that run it. */
export interface KeyedRequest {
  readonly owner: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Fields of the result that are not stored. */
  readonly secretFields: readonly string[];
  /** The authorizations of the request so far; the list grows while it runs. */
  readonly granted: readonly Granted[];
  /** Throws FORBIDDEN when the credentials of this request lack what an earlier attempt was authorized for. */
  readonly authorize: (granted: readonly Granted[]) => Promise<void>;
  readonly run: (guard: Guard) => Promise<Completed>;
  /** Builds the response to an applied change whose response was lost. */
  readonly again: (guard: Guard, objectId: string | undefined) => Promise<ApiResponse>;
}

/** The effects of earlier attempts in the catalog and in the engines. */
export interface EarlierAttempts {
  /** Completes or undoes their open changes. Throws when that is not possible now. */
  recover(keyId: string): Promise<void>;
  /** The number of rows that the step changed in an engine; undefined when it was not applied. */
  rowsOf(step: RetainedStep): Promise<number | undefined>;
}

/** How long to wait for another server to complete a change after a crash. */
const recoveryMs = 3000;
const recoveryPollMs = 50;
/** How long to wait for another attempt that runs the request, here or on another server. */
const otherAttemptMs = 30_000;
/** How long to wait for the response of another server that has made the change; then the response is built again. */
const pendingResponseMs = 3000;
const replayHeader = { 'x-service-idempotent-replay': 'true' };
/** Refusals that depend on the circumstances of one attempt; the next may succeed. */
const transientRefusals: ReadonlySet<Code> = new Set<Code>(['STATEMENT_CANCELLED']);
/** Codes whose details may quote values of rows, which are not stored with a key. */
const quotingRows: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'CONSTRAINT_VIOLATED',
  'DATA_INVALID',
  'ROWS_INVALID',
]);

/** Throws INVALID_IDEMPOTENCY_KEY. */
export function keyOf<Context>(incoming: IncomingMessage, endpoint: Endpoint<Context>): string | undefined {
  const key = incoming.headers[idempotencyKeyHeader] as string | undefined;
  if (key === undefined || !acceptsIdempotencyKey(endpoint)) return undefined;
  if (idempotencyKeyForm.test(key)) return key;
  throw new Failure('INVALID_IDEMPOTENCY_KEY', `${idempotencyKeyHeader} must be 1 to 255 visible ASCII characters`);
}

export class IdempotentRequests {
  readonly #keys: IdempotencyKeys;
  readonly #earlier: EarlierAttempts;
  /** The ends of running attempts, by owner and key. */
  readonly #running = new Map<string, Promise<void>>();

  constructor(keys: IdempotencyKeys, earlier: EarlierAttempts) {
    this.#keys = keys;
    this.#earlier = earlier;
  }

  /** Runs an attempt when no other one with the key runs, here or on another server. Throws CHANGE_IN_PROGRESS. */
  async inTurn<T>(owner: string, key: string, attempt: () => Promise<T>): Promise<T> {
    const id = `${owner} ${key}`;
    const until = performance.now() + otherAttemptMs;
    for (let running = this.#running.get(id); running; running = this.#running.get(id)) {
      const ended = running.then(() => true);
      if (!(await withTimeout(ended, Math.max(0, until - performance.now())))) throw stillRunning();
    }
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#running.set(id, ended);
    try {
      while (await this.#keys.isHeldElsewhere(owner, key)) await pauseUntil(until);
      return await attempt();
    } finally {
      this.#running.delete(id);
      resolve();
    }
  }

  /** Whether the key has been used, with any request. */
  isKnown(owner: string, key: string): Promise<boolean> {
    return this.#keys.isKnown(owner, key);
  }

  /** To be called in turn. */
  async respond(keyed: KeyedRequest): Promise<ApiResponse> {
    const begun = await this.#begin(keyed);
    if (begun.kind === 'answered') {
      await keyed.authorize(begun.granted);
      return storedReply(begun.response);
    }
    const guard: Guard = { ...begun.guard, granted: keyed.granted };
    if (begun.kind === 'done') return this.#confirm(keyed, guard, begun.completed);
    try {
      return await (begun.isRetry ? this.#resume(keyed, guard) : this.#first(keyed, guard));
    } finally {
      // Otherwise the lease expires.
      await this.#keys.end(guard).catch(() => undefined);
    }
  }

  /** Waits while another server runs the request. */
  async #begin({ owner, key, fingerprint }: KeyedRequest): Promise<Exclude<Begun, { readonly kind: 'running' }>> {
    const until = performance.now() + otherAttemptMs;
    let responseUntil: number | undefined;
    for (;;) {
      const begun = await this.#keys.begin(owner, key, fingerprint);
      if (begun.kind === 'done' && begun.isResponsePending) {
        responseUntil ??= performance.now() + pendingResponseMs;
        if (performance.now() >= responseUntil) return begun;
      } else if (begun.kind !== 'running') return begun;
      await pauseUntil(until);
    }
  }

  async #first(keyed: KeyedRequest, guard: Guard): Promise<ApiResponse> {
    try {
      return await this.#perform(keyed, guard);
    } catch (error) {
      if (isRefusal(error)) await this.#storeRefusal(keyed, guard, error);
      // After any other error the work may have been applied: the key is retained, so that the next attempt can find out.
      else if (error instanceof Failure && outcomeOf(error) === 'notApplied')
        await this.#keys.release(guard).catch(() => undefined);
      throw error;
    }
  }

  /** An attempt after one with an unknown outcome: confirms its effect, or applies the request. */
  async #resume(keyed: KeyedRequest, guard: Guard): Promise<ApiResponse> {
    await this.#earlier.recover(guard.keyId);
    const completed = await this.#keys.completedChange(guard);
    if (completed) return this.#confirm(keyed, guard, completed);
    const applied = await this.#appliedBefore(keyed, guard);
    try {
      const response = await this.#perform(keyed, applied ? { ...guard, applied } : guard);
      return applied ? markReplayed(response) : response;
    } catch (error) {
      // Another server may be completing the change, which can be the reason for this failure.
      const late = await this.#doneSince(guard, isRefusal(error) ? recoveryMs : 0);
      if (late) return this.#confirm(keyed, guard, late);
      if (isRefusal(error)) await this.#storeRefusal(keyed, guard, error);
      // This attempt may be known to have changed nothing, but not the one before it.
      throw withOutcome(error, 'unknown');
    }
  }

  async #perform(keyed: KeyedRequest, guard: Guard): Promise<ApiResponse> {
    const { response, stored } = await keyed.run(guard);
    if (stored) await this.#store(keyed, guard, stored);
    return response;
  }

  async #confirm(keyed: KeyedRequest, guard: Guard, { objectId, granted }: CompletedChange): Promise<ApiResponse> {
    await keyed.authorize(granted);
    return markReplayed(await keyed.again(guard, objectId));
  }

  async #appliedBefore(keyed: KeyedRequest, guard: Guard): Promise<AppliedWrite | undefined> {
    const step = await this.#keys.stepOf(guard);
    const rowCount = step && (await this.#earlier.rowsOf(step));
    if (!step || rowCount === undefined) return undefined;
    await keyed.authorize(step.granted);
    return { rowCount, queryId: step.queryId };
  }

  async #doneSince(guard: Guard, forMs: number): Promise<CompletedChange | undefined> {
    const until = performance.now() + forMs;
    for (;;) {
      const done = await this.#keys.completedChange(guard);
      if (done || performance.now() >= until) return done;
      await pause(recoveryPollMs);
    }
  }

  async #storeRefusal(keyed: KeyedRequest, guard: Guard, failure: Failure): Promise<void> {
    const { code } = failure;
    const stored = quotingRows.has(code) ? new Failure(code, codes[code].meaning) : failure;
    await this.#store(keyed, guard, failureResponse(stored));
  }

  async #store(keyed: KeyedRequest, guard: Guard, response: ApiResponse): Promise<void> {
    const { Location: location, ETag: etag } = response.headers;
    try {
      const body = withoutSecrets((await concatenate(response.body)).toString(), keyed.secretFields);
      await this.#keys.storeResponse(guard, { status: response.status, location, etag, body });
    } catch {
      // A retry reconstructs the response.
    }
  }
}

/** Before it is checked again whether an attempt has ended. Throws CHANGE_IN_PROGRESS when the deadline has passed. */
async function pauseUntil(until: number): Promise<void> {
  if (performance.now() >= until) throw stillRunning();
  await pause(recoveryPollMs);
}

const stillRunning = (): Failure =>
  new Failure(
    'CHANGE_IN_PROGRESS',
    `the first request with this idempotency key is still running after ${otherAttemptMs / 1000} s; repeat it later`,
    {},
    { outcome: 'unknown' },
  );

/** Whether a failure is final and may be stored: nothing was changed, and the same request would be refused again. */
function isRefusal(error: unknown): error is Failure {
  if (!(error instanceof Failure) || transientRefusals.has(error.code) || error.outcome === 'unknown') return false;
  const { status } = codes[error.code];
  // Missing privileges can be granted later.
  return status < 500 && status !== 401 && status !== 403;
}

function storedReply({ status, location, etag, body }: StoredResponse): ApiResponse {
  const headers = {
    ...replayHeader,
    ...(location === undefined ? {} : { Location: location }),
    ...(etag === undefined ? {} : { ETag: etag }),
  };
  return { status: status as SuccessStatus, headers, body: [body] };
}

function withoutSecrets(body: string, fields: readonly string[]): string {
  if (fields.length === 0) return body;
  const envelope = JSON.parse(body) as { result?: Record<string, unknown> };
  for (const field of fields) delete envelope.result?.[field];
  return JSON.stringify(envelope);
}

const markReplayed = (response: ApiResponse): ApiResponse => ({
  ...response,
  headers: { ...response.headers, ...replayHeader },
});
