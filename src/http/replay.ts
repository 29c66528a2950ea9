// A request with an idempotency key: done once, answered as often as it is sent (rest-standard B6). What is kept of it is
// access/idempotency_keys.ts.
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { type Begun, type IdempotencyKeys, idempotencyKeyForm, type KeptAnswer } from '../access/idempotency_keys.ts';
import type { Guard } from '../model/principal.ts';
import { codes, type SuccessStatus } from '../standard/codes.ts';
import { type Endpoint, takesKey } from '../standard/endpoint.ts';
import type { Answer } from '../standard/envelope.ts';
import { answerOfFailure } from '../standard/envelope.ts';
import { Failure, withOutcome } from '../standard/failure.ts';

/** How a keyed request is carried out. */
export interface Keyed {
  readonly owner: string;
  readonly key: string;
  readonly fingerprint: string;
  /** Of the answer's result: not kept. */
  readonly secretFields: readonly string[];
  readonly run: (guard: Guard) => Promise<Answer>;
  /** The answer to a change that was made, whose answer is lost. */
  readonly again: (guard: Guard, objectId: string | undefined) => Promise<Answer>;
}

/** How long a change that a crash came into may take to be gone on with. */
const recoveryMs = 3000;
const recoveryLookMs = 50;
const idempotencyKeyHeader = 'x-service-idempotency-key';
const replayHeader = { 'x-service-idempotent-replay': 'true' };

/** Throws INVALID_IDEMPOTENCY_KEY. */
export function keyOf<Context>(
  incoming: IncomingMessage,
  method: string,
  endpoint: Endpoint<Context>,
): string | undefined {
  const key = incoming.headers[idempotencyKeyHeader] as string | undefined;
  if (key === undefined || (method !== 'POST' && method !== 'PATCH') || !takesKey(endpoint)) return undefined;
  if (idempotencyKeyForm.test(key)) return key;
  throw new Failure('INVALID_IDEMPOTENCY_KEY', `${idempotencyKeyHeader} is 1 to 255 visible ASCII characters`);
}

export function fingerprintOf(method: string, path: string, body: Uint8Array | undefined): string {
  const hash = createHash('sha256').update(`${method} ${path}\n`);
  if (body) hash.update(body);
  return hash.digest('hex');
}

export class Replays {
  readonly #keys: IdempotencyKeys;
  /** Those that run: one that comes meanwhile waits for the answer. */
  readonly #running = new Map<string, { readonly fingerprint: string; readonly answer: Promise<Answer> }>();

  constructor(keys: IdempotencyKeys) {
    this.#keys = keys;
  }

  async answer(keyed: Keyed): Promise<Answer> {
    const { owner, key, fingerprint } = keyed;
    const at = `${owner} ${key}`;
    const running = this.#running.get(at);
    if (running) {
      if (running.fingerprint !== fingerprint)
        throw new Failure('IDEMPOTENCY_KEY_REUSED', 'the idempotency key was sent with another request before');
      return replayed(await running.answer);
    }
    const answer = this.#first(keyed).finally(() => this.#running.delete(at));
    answer.catch(() => {});
    this.#running.set(at, { fingerprint, answer });
    return answer;
  }

  async #first(keyed: Keyed): Promise<Answer> {
    const begun: Begun = await this.#keys.begin(keyed.owner, keyed.key, keyed.fingerprint);
    if (begun.kind === 'answered') return stored(begun.answer);
    const { guard } = begun;
    if (begun.kind === 'done') return replayed(await keyed.again(guard, begun.objectId));
    try {
      const answer = await keyed.run(guard);
      await this.#keep(keyed, guard, answer);
      return answer;
    } catch (error) {
      const mayPass = !(error instanceof Failure) || codes[error.code].status >= 500;
      if (begun.isAgain) {
        // What the crash came into is gone on with meanwhile: that may be why it cannot be done once more.
        const done = await this.#doneSince(guard, mayPass ? 0 : recoveryMs);
        if (done) return replayed(await keyed.again(guard, done.objectId));
      }
      // A refusal is the first answer too; what may pass is not: the same key then tries anew.
      if (!mayPass) await this.#keep(keyed, guard, answerOfFailure(error));
      else if (!begun.isAgain) await this.#keys.release(guard);
      // Of this attempt it may be known that it changed nothing, of the one before it is not.
      throw begun.isAgain ? withOutcome(error, 'unknown') : error;
    }
  }

  async #doneSince(guard: Guard, forMs: number) {
    const until = performance.now() + forMs;
    for (;;) {
      const done = await this.#keys.doneSince(guard);
      if (done || performance.now() >= until) return done;
      await pause(recoveryLookMs);
    }
  }

  /** The answer that was given before, to who may no longer ask: its object may be called otherwise by now. */
  async known(owner: string, key: string, fingerprint: () => Promise<string>): Promise<Answer | undefined> {
    const answer = await this.#keys.answerOf(owner, key, fingerprint);
    return answer && stored(answer);
  }

  /** Where that fails, the answer is made anew if it is asked for again. */
  async #keep(keyed: Keyed, guard: Guard, answer: Answer): Promise<void> {
    const body = withoutSecrets(textOf(answer), keyed.secretFields);
    const kept = { status: answer.status, location: answer.headers.Location, body };
    await this.#keys.answered(guard, kept).catch(() => undefined);
  }
}

function stored({ status, location, body }: KeptAnswer): Answer {
  const headers = { ...replayHeader, ...(location === undefined ? {} : { Location: location }) };
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
