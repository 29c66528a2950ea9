// Notices of the ends of tasks: a signed POST to whom the submitter named, again and again until it is taken or given up. That one is
// due is written with the end of the task, that it was sent after it was taken: so each is sent at least once, whatever crashes.
import { createHmac } from 'node:crypto';
import type { Selectable, Transaction } from 'kysely';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { Observe } from '../observe/observations.ts';
import type { HostAllowlist } from '../outbound/host_allowlist.ts';
import { post, urlOf } from '../outbound/http_client.ts';
import { Failure } from '../standard/failure.ts';
import { uriOf } from '../standard/paths.ts';
import { hasPendingNotification } from '../store/migrations/task_notices.ts';
import type { Schema, TasksTable } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import type { Notify, WebhookState } from './task.ts';
import { taskRecord } from './task_rows.ts';

export interface WebhooksOptions {
  readonly store: Store;
  readonly secrets: Pick<Secrets, 'put' | 'get' | 'remove'>;
  readonly rules: HostAllowlist;
  readonly observe: Observe;
  readonly clock?: (() => number) | undefined;
  /** The pause after a first attempt that failed. */
  readonly retryPauseMs?: number | undefined;
}

type Row = Selectable<TasksTable>;

/** With a random half left out, and doubling, these are about three hours. */
export const attemptsMax = 14;
const retryPauseMs = 5000;
const retryPauseMsMax = 3_600_000;
const answerMs = 10_000;
const atOnceMax = 8;
const lookEveryMs = 30_000;
/** Gone: it will never be taken. */
const goneStatus = 410;

const secretOf = (taskId: string) => `task/${taskId}`;

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #clock: () => number;
  readonly #sending = new Map<string, Promise<void>>();
  /** Hosts that did not answer: until when nothing else is sent there. */
  readonly #silent = new Map<string, number>();
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #looking = false;
  #lookAgain = false;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** Throws HOST_NOT_ALLOWED, INVALID_PARAMETER. */
  check({ url }: Pick<Notify, 'url'>): void {
    this.#options.rules.check(urlOf(url));
  }

  /** Part of the submission. The address may be a secret as such: it is kept as one. */
  async keep(tx: Transaction<Schema>, taskId: string, notify: Notify): Promise<WebhookState> {
    const { host } = urlOf(notify.url);
    const state: WebhookState = {
      host,
      signed: notify.secret !== undefined,
      state: 'waiting',
      attempts: 0,
      error: null,
    };
    await this.#options.secrets.put(secretOf(taskId), JSON.stringify(notify), tx);
    await tx
      .updateTable('tasks')
      .set({ notify: JSON.stringify(state) })
      .where('task_id', '=', taskId)
      .execute();
    return state;
  }

  /** Part of the task's removal. */
  async forget(tx: Transaction<Schema>, taskId: string): Promise<void> {
    await this.#options.secrets.remove(secretOf(taskId), tx);
  }

  start(): void {
    this.#started = true;
    this.look();
  }

  /** What is being sent is broken off, and sent again by who runs next. */
  async stop(): Promise<void> {
    this.#started = false;
    clearTimeout(this.#timer);
    this.#stopped.abort();
    await Promise.all(this.#sending.values());
  }

  /** Sends what is due, soon. */
  look(): void {
    if (!this.#started) return;
    this.#lookAgain = true;
    if (!this.#looking) void this.#lookUntilDone();
  }

  async #lookUntilDone(): Promise<void> {
    this.#looking = true;
    let waitMs = lookEveryMs;
    try {
      while (this.#lookAgain && this.#started) {
        this.#lookAgain = false;
        waitMs = await this.#sendDue();
      }
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'look for notices to send', error });
      waitMs = this.#options.retryPauseMs ?? retryPauseMs;
    }
    this.#looking = false;
    clearTimeout(this.#timer);
    if (this.#started) this.#timer = setTimeout(() => this.look(), waitMs).unref();
  }

  /** Answers when to look again. */
  async #sendDue(): Promise<number> {
    const now = this.#clock();
    const rows = await this.#options.store.db
      .selectFrom('tasks')
      .selectAll()
      .where(hasPendingNotification)
      .orderBy('notify_at')
      .limit(atOnceMax * 2)
      .execute();
    for (const row of rows) {
      if (this.#sending.has(row.task_id)) continue;
      const at = row.notify_at as number;
      if (isAhead(at, now)) return Math.min(lookEveryMs, at - now);
      const silentUntil = this.#silent.get(stateOf(row).host) ?? 0;
      if (isAhead(silentUntil, now)) {
        await this.#put(row, silentUntil);
        this.#lookAgain = true;
      } else if (this.#sending.size < atOnceMax) {
        const sending = this.#send(row).finally(() => {
          this.#sending.delete(row.task_id);
          this.look();
        });
        this.#sending.set(row.task_id, sending);
      }
    }
    return lookEveryMs;
  }

  async #send(row: Row): Promise<void> {
    const { observe } = this.#options;
    try {
      const before = stateOf(row);
      const why = await this.#attempt(row);
      if (this.#stopped.signal.aborted && why) return;
      await this.#note(row, before, why);
    } catch (error) {
      observe({ kind: 'backgroundError', what: `notice of the end of task ${row.task_id}`, error });
      // Not sooner than after an attempt that failed, so that a store that fails is not asked all the time.
      this.#silent.set(stateOf(row).host, this.#clock() + (this.#options.retryPauseMs ?? retryPauseMs));
    }
  }

  /** Undefined where it was taken. */
  async #attempt(row: Row): Promise<Refused | undefined> {
    const { secrets, rules } = this.#options;
    const text = await secrets.get(secretOf(row.task_id));
    if (text === undefined) return { message: 'its address is not known any more', forGood: true, isSilent: false };
    const notify = JSON.parse(text) as Notify;
    const message = messageOf(row, notify, this.#clock());
    try {
      const limits = { totalMs: answerMs, signal: this.#stopped.signal };
      const status = await post(notify.url, rules, message, limits);
      if (status >= 200 && status < 300) return undefined;
      return { message: `it was answered with ${status}`, forGood: status === goneStatus, isSilent: false };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const forGood = error.code === 'HOST_NOT_ALLOWED';
      return { message: error.message, forGood, isSilent: !forGood };
    }
  }

  async #note(row: Row, before: WebhookState, why: Refused | undefined): Promise<void> {
    const attempts = before.attempts + 1;
    const over = !why || why.forGood || attempts >= attemptsMax;
    const longest = Math.min(retryPauseMsMax, (this.#options.retryPauseMs ?? retryPauseMs) * 2 ** (attempts - 1));
    const again = this.#clock() + Math.ceil((longest * (1 + Math.random())) / 2);
    if (why?.isSilent) this.#silence(before.host, again);
    else this.#silent.delete(before.host);
    const state = {
      ...before,
      attempts,
      state: why ? (over ? 'failed' : 'waiting') : 'sent',
      error: why?.message ?? null,
    };
    await this.#options.store.transaction(async (tx) => {
      await tx
        .updateTable('tasks')
        .set({ notify: JSON.stringify(state), notify_at: over ? null : again })
        .where('task_id', '=', row.task_id)
        .execute();
      if (over) await this.forget(tx, row.task_id);
    });
  }

  /** What else is due there waits as long: one host that does not answer does not keep the others waiting. */
  #silence(host: string, until: number): void {
    const now = this.#clock();
    for (const [known, over] of this.#silent) if (over <= now) this.#silent.delete(known);
    this.#silent.set(host, until);
  }

  async #put(row: Row, at: number): Promise<void> {
    await this.#options.store.db
      .updateTable('tasks')
      .set({ notify_at: at })
      .where('task_id', '=', row.task_id)
      .where(hasPendingNotification)
      .execute();
  }
}

/** Why a notice was not taken. `isSilent`: the host did not answer at all. */
interface Refused {
  readonly message: string;
  readonly forGood: boolean;
  readonly isSilent: boolean;
}

/** What is further ahead than any pause was worked out from a clock that has been set back since. */
const isAhead = (at: number, now: number): boolean => at > now && at <= now + retryPauseMsMax;

function stateOf(row: Row): WebhookState {
  return JSON.parse(row.notify as string) as WebhookState;
}

/** The signature is over the time too, so that who overhears one cannot send it later. */
function messageOf(row: Row, { secret }: Notify, now: number) {
  const { principal: _principal, request: _request, result: _result, notify: _notify, ...task } = taskRecord(row);
  const uri = uriOf('v2', [{ category: 'tasks', name: row.task_id }]);
  const body = JSON.stringify({ event: 'taskEnded', task: { ...task, uri } });
  const timestamp = String(Math.floor(now / 1000));
  const signature =
    secret === undefined ? undefined : createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-service-notice-id': row.task_id,
      'x-service-timestamp': timestamp,
      ...(signature === undefined ? {} : { 'x-service-signature': `sha256=${signature}` }),
    },
  };
}
