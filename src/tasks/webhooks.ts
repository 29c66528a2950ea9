// Webhooks: sends a signed POST to the URL of the submitter when a task ends, with retries. That it is due is written together with the
// end of the task, that it was delivered after the response: so each is delivered at least once, despite crashes. While a process calls one,
// it holds the task by a lease, so that no two servers do so at the same time.
import { createHmac } from 'node:crypto';
import { type RawBuilder, type Selectable, sql, type Transaction } from 'kysely';
import type { Secrets } from '../access/secrets/secrets.ts';
import { hasPlace } from '../model/concurrency/fair_share.ts';
import type { Observe } from '../observe/observations.ts';
import type { HostAllowlist } from '../outbound/host_allowlist.ts';
import { post, urlOf } from '../outbound/http_client.ts';
import { Failure } from '../standard/failure.ts';
import { uriOf } from '../standard/paths.ts';
import { HeldLeases } from '../store/held_leases.ts';
import { hasPendingNotification } from '../store/index_conditions.ts';
import { LeaseHolder, noLease } from '../store/leases.ts';
import type { Schema, TasksTable } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { headsOfOwners } from './heads_of_owners.ts';
import type { Notify, WebhookState } from './task.ts';
import { taskRecord } from './task_rows.ts';

export interface WebhooksOptions {
  readonly store: Store;
  readonly secrets: Pick<Secrets, 'put' | 'get' | 'remove'>;
  readonly rules: HostAllowlist;
  readonly observe: Observe;
  readonly clock?: (() => number) | undefined;
  /** This process; by default the only one that uses the store. */
  readonly holder?: LeaseHolder | undefined;
  /** The delay after the first failed attempt. */
  readonly retryPauseMs?: number | undefined;
  /** How long the response to one attempt is awaited. */
  readonly responseTimeoutMs?: number | undefined;
}

type Row = Selectable<TasksTable>;

/** With delays that double and are jittered by half, these take about three hours. */
export const attemptsMax = 14;
const retryPauseMs = 5000;
const retryPauseMsMax = 3_600_000;
const responseTimeoutMs = 10_000;
/** At the same time. Beyond it, as many more of owners of whom none is being sent: unresponsive hosts of one owner delay no one else's. */
const concurrencyMax = 8;
/** Owners whose next webhook is read at once, and webhooks of one owner that are postponed at once. */
const batchMax = 100;
const pollEveryMs = 30_000;
/** If other servers use the store: one that has ended a task, or was calling a webhook, may have ended itself. */
const sharedPollEveryMs = 2_000;
/** The lease on a call is not renewed for longer. */
const callMsMax = 60_000;
/** 410 Gone: the receiver never accepts it. */
const goneStatus = 410;

const secretOf = (taskId: string) => `task/${taskId}`;

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #clock: () => number;
  readonly #holder: LeaseHolder;
  readonly #leases: HeldLeases<string>;
  readonly #pollEveryMs: number;
  /** By the id of the task. */
  readonly #sending = new Map<string, { readonly owner: string; readonly done: Promise<void> }>();
  /** Owner and unresponsive host (`hostKey`) → time until which nothing of this owner is sent there. */
  readonly #unresponsive = new Map<string, number>();
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #dispatching: Promise<void> | undefined;
  #dispatchAgain = false;

  constructor(options: WebhooksOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
    this.#holder = options.holder ?? new LeaseHolder();
    this.#pollEveryMs = this.#holder.isShared ? sharedPollEveryMs : pollEveryMs;
    const { observe } = options;
    const renew = (ids: readonly string[]) => this.#renew(ids);
    this.#leases = new HeldLeases({ holder: this.#holder, observe, holdMsMax: callMsMax, renew });
  }

  /** Throws HOST_NOT_ALLOWED, INVALID_PARAMETER. */
  check({ url }: Pick<Notify, 'url'>): void {
    this.#options.rules.check(urlOf(url));
  }

  /** Called in the transaction that submits the task. The URL is stored as a secret, because it may contain one. */
  async add(tx: Transaction<Schema>, taskId: string, notify: Notify): Promise<WebhookState> {
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

  /** Called in the transaction that deletes the task. */
  async remove(tx: Transaction<Schema>, taskId: string): Promise<void> {
    await this.#options.secrets.remove(secretOf(taskId), tx);
  }

  start(): void {
    this.#started = true;
    this.dispatch();
  }

  /** Aborts requests in progress; they are repeated after the next start. */
  async stop(): Promise<void> {
    this.#started = false;
    clearTimeout(this.#timer);
    this.#stopped.abort();
    await this.#dispatching;
    await Promise.all([...this.#sending.values()].map(({ done }) => done));
  }

  /** Starts sending due webhooks. */
  dispatch(): void {
    if (!this.#started) return;
    this.#dispatchAgain = true;
    this.#dispatching ??= this.#dispatchUntilDone();
  }

  async #dispatchUntilDone(): Promise<void> {
    let waitMs = this.#pollEveryMs;
    try {
      while (this.#dispatchAgain && this.#started) {
        this.#dispatchAgain = false;
        waitMs = await this.#sendDue();
      }
    } catch (error) {
      this.#options.observe({ kind: 'backgroundError', what: 'send due webhooks', error });
      waitMs = this.#options.retryPauseMs ?? retryPauseMs;
    }
    this.#dispatching = undefined;
    clearTimeout(this.#timer);
    if (this.#started) this.#timer = setTimeout(() => this.dispatch(), waitMs).unref();
  }

  /** Returns the time until the next poll. */
  async #sendDue(): Promise<number> {
    const now = this.#clock();
    for (const row of await this.#nextOfOwners(now)) {
      if (!this.#started) break;
      const dueAt = row.notify_at as number;
      if (isAhead(dueAt, now)) return Math.min(this.#pollEveryMs, dueAt - now);
      const isPaused = this.#pausedUntil(row, now) !== undefined;
      if (!isPaused && !this.#hasRoom(row.owner)) continue;
      if (isPaused) await this.#postpone(row.owner, now);
      else this.#startSending(row);
      // The owner may have more.
      this.#dispatchAgain = true;
    }
    return this.#pollEveryMs;
  }

  /** The next webhook of each owner that may have one more place. */
  async #nextOfOwners(now: number): Promise<Row[]> {
    const { db } = this.#options.store;
    const heads = headsOfOwners(db, hasPendingNotification, (rows) =>
      rows.where(this.#isWaiting(now)).orderBy('notify_at'),
    );
    const owners = this.#owners();
    const isFull = owners.length >= concurrencyMax;
    const startable = isFull ? heads.where('owners.owner', 'not in', owners) : heads;
    return startable.orderBy('notify_at').limit(batchMax).execute();
  }

  /** Rows that no one sends. */
  #isWaiting(now: number): RawBuilder<boolean> {
    const isFree = this.#holder.isFree(now);
    if (this.#sending.size === 0) return isFree;
    return sql<boolean>`${isFree} and task_id not in (${sql.join([...this.#sending.keys()])})`;
  }

  #hasRoom(owner: string): boolean {
    return hasPlace(this.#owners(), owner, concurrencyMax);
  }

  /** Of the webhooks that are being sent. */
  #owners(): string[] {
    return [...this.#sending.values()].map(({ owner }) => owner);
  }

  #startSending(row: Row): void {
    const done = this.#send(row).finally(() => {
      this.#sending.delete(row.task_id);
      this.dispatch();
    });
    this.#sending.set(row.task_id, { owner: row.owner, done });
  }

  async #send(row: Row): Promise<void> {
    const { observe } = this.#options;
    try {
      if (!(await this.#claim(row))) return;
      this.#leases.hold(row.task_id, row.task_id);
      const before = stateOf(row);
      const failure = await this.#attempt(row);
      if (this.#stopped.signal.aborted && failure) return await this.#release(row);
      await this.#saveOutcome(row, before, failure);
    } catch (error) {
      observe({ kind: 'backgroundError', what: `webhook of task ${row.task_id}`, error });
      // Delayed as after a failed attempt, so that a failing store is not queried continuously.
      this.#unresponsive.set(hostKey(row), this.#clock() + (this.#options.retryPauseMs ?? retryPauseMs));
    } finally {
      this.#leases.release(row.task_id);
    }
  }

  /** Returns false if another server calls the webhook, or has called it since the row was read. */
  async #claim(row: Row): Promise<boolean> {
    const now = this.#clock();
    const { numUpdatedRows } = await this.#options.store.db
      .updateTable('tasks')
      .set(this.#holder.lease(now))
      .where('task_id', '=', row.task_id)
      .where('notify_at', '=', row.notify_at)
      .where(this.#holder.isFree(now))
      .executeTakeFirst();
    return numUpdatedRows === 1n;
  }

  async #renew(ids: readonly string[]): Promise<string[]> {
    const rows = await this.#options.store.db
      .updateTable('tasks')
      .set(this.#holder.lease(this.#clock()))
      .where('task_id', 'in', ids)
      .where(hasPendingNotification)
      .where('leased_by', '=', this.#holder.id)
      .returning('task_id')
      .execute();
    return rows.map(({ task_id }) => task_id);
  }

  async #release({ task_id }: Row): Promise<void> {
    await this.#held(task_id).set(noLease).execute();
  }

  /** An update of a task that this process holds. */
  #held(taskId: string, db: Store['db'] = this.#options.store.db) {
    return db.updateTable('tasks').where('task_id', '=', taskId).where('leased_by', '=', this.#holder.id);
  }

  /** Returns undefined if the webhook was accepted. */
  async #attempt(row: Row): Promise<DeliveryFailure | undefined> {
    const { secrets, rules } = this.#options;
    const text = await secrets.get(secretOf(row.task_id));
    if (text === undefined) return { message: 'its URL is no longer stored', isPermanent: true, isUnresponsive: false };
    const notify = JSON.parse(text) as Notify;
    const message = messageOf(row, notify, this.#clock());
    try {
      const totalMs = this.#options.responseTimeoutMs ?? responseTimeoutMs;
      const limits = { totalMs, signal: this.#stopped.signal };
      const status = await post(notify.url, rules, message, limits);
      if (status >= 200 && status < 300) return undefined;
      return {
        message: `the response has status ${status}`,
        isPermanent: status === goneStatus,
        isUnresponsive: false,
      };
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      const isPermanent = error.code === 'HOST_NOT_ALLOWED';
      return { message: error.message, isPermanent, isUnresponsive: !isPermanent };
    }
  }

  async #saveOutcome(row: Row, before: WebhookState, failure: DeliveryFailure | undefined): Promise<void> {
    const attempts = before.attempts + 1;
    const isFinal = !failure || failure.isPermanent || attempts >= attemptsMax;
    const delayMsMax = Math.min(retryPauseMsMax, (this.#options.retryPauseMs ?? retryPauseMs) * 2 ** (attempts - 1));
    const retryAt = this.#clock() + Math.ceil((delayMsMax * (1 + Math.random())) / 2);
    if (failure?.isUnresponsive) this.#pauseHost(row, retryAt);
    else this.#unresponsive.delete(hostKey(row));
    const state = {
      ...before,
      attempts,
      state: failure ? (isFinal ? 'failed' : 'waiting') : 'sent',
      error: failure?.message ?? null,
    };
    await this.#options.store.transaction(async (tx) => {
      const outcome = { notify: JSON.stringify(state), notify_at: isFinal ? null : retryAt, ...noLease };
      const { numUpdatedRows } = await this.#held(row.task_id, tx).set(outcome).executeTakeFirst();
      if (isFinal && numUpdatedRows === 1n) await this.remove(tx, row.task_id);
    });
  }

  /** Pauses all webhooks of the owner to an unresponsive host, so that they do not delay those to other hosts. */
  #pauseHost(row: Row, until: number): void {
    const now = this.#clock();
    for (const [other, end] of this.#unresponsive) if (end <= now) this.#unresponsive.delete(other);
    this.#unresponsive.set(hostKey(row), until);
  }

  #pausedUntil(row: Pick<Row, 'owner' | 'notify'>, now: number): number | undefined {
    const until = this.#unresponsive.get(hostKey(row)) ?? 0;
    return isAhead(until, now) ? until : undefined;
  }

  /** Postpones due webhooks of an owner to the ends of the pauses of their hosts. */
  async #postpone(owner: string, now: number): Promise<void> {
    const { db } = this.#options.store;
    const rows = await db
      .selectFrom('tasks')
      .select(['task_id', 'owner', 'notify', 'notify_at'])
      .where(hasPendingNotification)
      .where('owner', '=', owner)
      .where(this.#isWaiting(now))
      .orderBy('notify_at')
      .limit(batchMax)
      .execute();
    const due = rows.filter((row) => !isAhead(row.notify_at as number, now));
    for (const [until, paused] of Map.groupBy(due, (row) => this.#pausedUntil(row, now)))
      if (until !== undefined)
        await db
          .updateTable('tasks')
          .set({ notify_at: until })
          .where(
            'task_id',
            'in',
            paused.map((row) => row.task_id),
          )
          .where(hasPendingNotification)
          .execute();
  }
}

/** Why a webhook was not accepted. `isUnresponsive`: there was no response. */
interface DeliveryFailure {
  readonly message: string;
  readonly isPermanent: boolean;
  readonly isUnresponsive: boolean;
}

/** A time beyond the longest delay was computed before the clock was set back, and counts as passed. */
const isAhead = (time: number, now: number): boolean => time > now && time <= now + retryPauseMsMax;

function stateOf(row: Pick<Row, 'notify'>): WebhookState {
  return JSON.parse(row.notify as string) as WebhookState;
}

const hostKey = (row: Pick<Row, 'owner' | 'notify'>): string => `${row.owner}\n${stateOf(row).host}`;

/** The signature covers the time too, which prevents replays. */
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
