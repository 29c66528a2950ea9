// A request with an idempotency key: done once, answered as often as it is sent (rest-standard B6). What is stored of it is
// access/idempotency_keys.ts.
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Begun,
  type CompletedChange,
  type IdempotencyKeys,
  idempotencyKeyForm,
  keyReused,
  type RetainedStep,
  type StoredResponse,
} from '../../access/idempotency_keys.ts';
import type { AppliedWrite, Granted, Guard } from '../../model/principal.ts';
import { type Code, codes, type SuccessStatus } from '../../standard/codes.ts';
import { type Endpoint, takesKey } from '../../standard/endpoint.ts';
import { type Answer, answerOfFailure } from '../../standard/envelope.ts';
import { Failure, outcomeOf, withOutcome } from '../../standard/failure.ts';
import { idempotencyKeyHeader } from '../request_headers.ts';

/** What a request came to: its answer, and the one that a repetition gets; undefined: a repetition reads again. */
export interface Completed {
  readonly answer: Answer;
  readonly stored: Answer | undefined;
}

/** How a keyed request is carried out. */
export interface KeyedRequest {
  readonly owner: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Of the answer's result: not stored. */
  readonly secretFields: readonly string[];
  /** What the request was authorized for so far; it grows while the request runs. */
  readonly granted: readonly Granted[];
  /** Throws FORBIDDEN where the credentials of this request do not give what an earlier one was authorized for. */
  readonly authorise: (granted: readonly Granted[]) => Promise<void>;
  readonly run: (guard: Guard) => Promise<Completed>;
  /** The answer to a change that was made, whose answer is lost. */
  readonly again: (guard: Guard, objectId: string | undefined) => Promise<Answer>;
}

/** What earlier attempts left, in the catalog and in the engines. */
export interface EarlierAttempts {
  /** Ends the changes that they began. Throws where that cannot be done now. */
  recover(keyId: string): Promise<void>;
  /** The rows that an engine changed by the step; undefined where it did not do it. */
  rowsOf(step: RetainedStep): Promise<number | undefined>;
}

/** How long a change that a crash came into may take to be completed. */
const recoveryMs = 3000;
const recoveryLookMs = 50;
const replayHeader = { 'x-service-idempotent-replay': 'true' };
/** Refusals of the circumstances of one attempt: they say nothing of the next. */
const passing: ReadonlySet<Code> = new Set<Code>(['STATEMENT_CANCELLED']);
/** Their details may quote values of rows, which are not stored with a key. */
const quotingRows: ReadonlySet<Code> = new Set<Code>([
  'SQL_INVALID',
  'CONSTRAINT_VIOLATED',
  'DATA_INVALID',
  'ROWS_INVALID',
]);

/** Throws INVALID_IDEMPOTENCY_KEY. */
export function keyOf<Context>(incoming: IncomingMessage, endpoint: Endpoint<Context>): string | undefined {
  const key = incoming.headers[idempotencyKeyHeader] as string | undefined;
  if (key === undefined || !takesKey(endpoint)) return undefined;
  if (idempotencyKeyForm.test(key)) return key;
  throw new Failure('INVALID_IDEMPOTENCY_KEY', `${idempotencyKeyHeader} is 1 to 255 visible ASCII characters`);
}

export class IdempotentRequests {
  readonly #keys: IdempotencyKeys;
  readonly #earlier: EarlierAttempts;
  /** Attempts under way: another one with the same key waits for the end of the first. */
  readonly #running = new Map<string, { readonly fingerprint: string; readonly ended: Promise<void> }>();

  constructor(keys: IdempotencyKeys, earlier: EarlierAttempts) {
    this.#keys = keys;
    this.#earlier = earlier;
  }

  async answer(keyed: KeyedRequest): Promise<Answer> {
    const { owner, key, fingerprint } = keyed;
    const at = `${owner} ${key}`;
    for (let running = this.#running.get(at); running; running = this.#running.get(at)) {
      if (running.fingerprint !== fingerprint) throw keyReused();
      await running.ended;
    }
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#running.set(at, { fingerprint, ended });
    try {
      return await this.#attempt(keyed);
    } finally {
      this.#running.delete(at);
      resolve();
    }
  }

  /** Whether the key was sent before, with whatever request. */
  isKnown(owner: string, key: string): Promise<boolean> {
    return this.#keys.isKnown(owner, key);
  }

  async #attempt(keyed: KeyedRequest): Promise<Answer> {
    const begun: Begun = await this.#keys.begin(keyed.owner, keyed.key, keyed.fingerprint);
    if (begun.kind === 'answered') {
      await keyed.authorise(begun.granted);
      return restored(begun.answer);
    }
    const guard: Guard = { ...begun.guard, granted: keyed.granted };
    if (begun.kind === 'done') return this.#confirmed(keyed, guard, begun.made);
    return begun.isRetry ? this.#resumed(keyed, guard) : this.#first(keyed, guard);
  }

  async #first(keyed: KeyedRequest, guard: Guard): Promise<Answer> {
    try {
      return await this.#performed(keyed, guard);
    } catch (error) {
      if (isRefusal(error)) await this.#storeRefusal(keyed, guard, error);
      // Where anything else went wrong the work may have been done: the key stays, so that the next attempt finds out.
      else if (error instanceof Failure && outcomeOf(error) === 'notApplied')
        await this.#keys.release(guard).catch(() => undefined);
      throw error;
    }
  }

  /** An attempt after one whose outcome is unknown: confirms what that did, or does it. */
  async #resumed(keyed: KeyedRequest, guard: Guard): Promise<Answer> {
    await this.#earlier.recover(guard.keyId);
    const made = await this.#keys.completedChange(guard);
    if (made) return this.#confirmed(keyed, guard, made);
    const applied = await this.#appliedBefore(keyed, guard);
    try {
      const answer = await this.#performed(keyed, applied ? { ...guard, applied } : guard);
      return applied ? replayed(answer) : answer;
    } catch (error) {
      // Another server may be completing the change meanwhile: that may be why it cannot be done once more.
      const late = await this.#doneSince(guard, isRefusal(error) ? recoveryMs : 0);
      if (late) return this.#confirmed(keyed, guard, late);
      if (isRefusal(error)) await this.#storeRefusal(keyed, guard, error);
      // Of this attempt it may be known that it changed nothing, of the one before it is not.
      throw withOutcome(error, 'unknown');
    }
  }

  async #performed(keyed: KeyedRequest, guard: Guard): Promise<Answer> {
    const { answer, stored } = await keyed.run(guard);
    if (stored) await this.#store(keyed, guard, stored);
    return answer;
  }

  async #confirmed(keyed: KeyedRequest, guard: Guard, { objectId, granted }: CompletedChange): Promise<Answer> {
    await keyed.authorise(granted);
    return replayed(await keyed.again(guard, objectId));
  }

  async #appliedBefore(keyed: KeyedRequest, guard: Guard): Promise<AppliedWrite | undefined> {
    const step = await this.#keys.stepOf(guard);
    const rowCount = step && (await this.#earlier.rowsOf(step));
    if (!step || rowCount === undefined) return undefined;
    await keyed.authorise(step.granted);
    return { rowCount, queryId: step.queryId };
  }

  async #doneSince(guard: Guard, forMs: number): Promise<CompletedChange | undefined> {
    const until = performance.now() + forMs;
    for (;;) {
      const done = await this.#keys.completedChange(guard);
      if (done || performance.now() >= until) return done;
      await pause(recoveryLookMs);
    }
  }

  async #storeRefusal(keyed: KeyedRequest, guard: Guard, failure: Failure): Promise<void> {
    const { code } = failure;
    const stored = quotingRows.has(code) ? new Failure(code, codes[code].meaning) : failure;
    await this.#store(keyed, guard, answerOfFailure(stored));
  }

  /** Where that fails, the answer is made anew if it is asked for again. */
  async #store(keyed: KeyedRequest, guard: Guard, answer: Answer): Promise<void> {
    const body = withoutSecrets(textOf(answer), keyed.secretFields);
    const { Location: location, ETag: etag } = answer.headers;
    const stored = { status: answer.status, location, etag, body };
    await this.#keys.storeResponse(guard, stored).catch(() => undefined);
  }
}

/** Whether it is the first answer too: nothing was done, and the same request would be refused again. */
function isRefusal(error: unknown): error is Failure {
  if (!(error instanceof Failure) || passing.has(error.code) || error.outcome === 'unknown') return false;
  const { status } = codes[error.code];
  // Who may not do it today may be allowed to tomorrow.
  return status < 500 && status !== 401 && status !== 403;
}

function restored({ status, location, etag, body }: StoredResponse): Answer {
  const headers = {
    ...replayHeader,
    ...(location === undefined ? {} : { Location: location }),
    ...(etag === undefined ? {} : { ETag: etag }),
  };
  return { status: status as SuccessStatus, headers, body: [body] };
}

function textOf({ body }: Answer): string {
  return body.map((piece) => (typeof piece === 'string' ? piece : Buffer.from(piece).toString())).join('');
}

function withoutSecrets(body: string, fields: readonly string[]): string {
  if (fields.length === 0) return body;
  const whole = JSON.parse(body) as { result?: Record<string, unknown> };
  for (const field of fields) delete whole.result?.[field];
  return JSON.stringify(whole);
}

const replayed = (answer: Answer): Answer => ({ ...answer, headers: { ...answer.headers, ...replayHeader } });
