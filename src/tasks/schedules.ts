// Schedules: determines the next time of each and runs it then, across restarts and clock changes. See due_runs.ts for which of them run
// at the same time, schedule_runs.ts for a run.

import assert from 'node:assert/strict';
import type { Transaction } from 'kysely';
import type { Secrets } from '../access/secrets/secrets.ts';
import { CronTimes } from '../model/cron_times.ts';
import { dayMs } from '../model/durations.ts';
import type { Actor } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { BatchedLookups } from '../store/batched_lookups.ts';
import { hasNextRun } from '../store/index_conditions.ts';
import type { Schema } from '../store/schema.ts';
import { type DueRun, DueRuns } from './due_runs.ts';
import { type ScheduleSecrets, type ScheduleSpec, type SubmitCall, scheduleSecretOf } from './schedule.ts';
import { ScheduleRuns, type ScheduleRunsOptions, type ScheduleTimes, setRow, timesFrom } from './schedule_runs.ts';

export interface SchedulesOptions extends Omit<ScheduleRunsOptions, 'secrets' | 'submitCall'> {
  readonly secrets: Pick<Secrets, 'get' | 'put' | 'remove'>;
  readonly observe: Observe;
}

/** The interval in which clock changes are detected and failed runs are retried. */
const pollEveryMs = 30_000;
/** If other servers use the store: one that held a schedule, or that created it, may have ended. */
const sharedPollEveryMs = 2_000;
/** If the clock is set back by more than this, times are computed again from it, and repeated times are run again. */
const clockSetBackMsMin = dayMs;
const pageMax = 100;

export class Schedules {
  readonly #options: SchedulesOptions;
  readonly #times: BatchedLookups<ScheduleTimes>;
  #runs: ScheduleRuns | undefined;
  readonly #clock: () => number;
  readonly #due = new DueRuns((due) => this.#run(due));
  #timer: NodeJS.Timeout | undefined;
  /** In the time of `performance.now`. */
  #timerAt = 0;
  #started = false;
  #polling: Promise<void> | undefined;
  #pollAgain = false;
  /** The time up to which due times were found. */
  #foundUntil = 0;

  constructor(options: SchedulesOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
    const times = options.store.db.selectFrom('schedule_times').selectAll();
    this.#times = new BatchedLookups({
      idsPerReadMax: pageMax,
      one: (id) => times.where('object_id', '=', id).executeTakeFirst(),
      many: async (ids) => {
        const rows = await times.where('object_id', 'in', ids).execute();
        return new Map(rows.map((row) => [row.object_id, row]));
      },
    });
  }

  /** Whether the schedule has any future time. Throws CronFault. */
  hasAnyOccurrence({ cron, timeZone }: Pick<ScheduleSpec, 'cron' | 'timeZone'>): boolean {
    return new CronTimes(cron, timeZone).after(this.#clock()) !== undefined;
  }

  /** Sets the times from now on, in the transaction that changes the schedule. Call `changed` after the commit. */
  async setTimes(tx: Transaction<Schema>, id: string, spec: ScheduleSpec): Promise<void> {
    const row = { ...timesFrom(spec, this.#clock()), error: null };
    await tx
      .insertInto('schedule_times')
      .values({ object_id: id, last_at: null, last_task_id: null, ...row })
      .onConflict((conflict) => conflict.column('object_id').doUpdateSet(row))
      .execute();
  }

  /** Stores the secrets in the transaction that changes the schedule, or deletes them if there are none. */
  async setSecrets(tx: Transaction<Schema>, id: string, { notify, body }: ScheduleSecrets): Promise<void> {
    const { secrets } = this.#options;
    if (!notify && !body) await secrets.remove(scheduleSecretOf(id), tx);
    else await secrets.put(scheduleSecretOf(id), JSON.stringify({ notify, body }), tx);
  }

  async secretsOf(id: string): Promise<ScheduleSecrets> {
    const sealed = await this.#options.secrets.get(scheduleSecretOf(id));
    return sealed === undefined ? {} : (JSON.parse(sealed) as ScheduleSecrets);
  }

  changed(): void {
    if (this.#started) this.#pollAfter(0);
  }

  /** Those that are requested together, as for a page, are read in one statement. */
  timesOf(id: string): Promise<ScheduleTimes | undefined> {
    return this.#times.get(id);
  }

  /** `submitCall`: submits the task of a run. */
  start(submitCall: SubmitCall): void {
    this.#runs = new ScheduleRuns({ ...this.#options, submitCall });
    this.#started = true;
    this.#pollAfter(0);
  }

  /** See `ScheduleRuns.runNow`. */
  async runNow(id: string, caller: Actor): Promise<string> {
    assert(this.#runs, 'the schedules were not started');
    return this.#runs.runNow(id, this.#clock(), caller);
  }

  /** Waits for runs that have begun. */
  async stop(): Promise<void> {
    this.#started = false;
    clearTimeout(this.#timer);
    await Promise.all([this.#polling, this.#due.stop()]);
  }

  /** Submits the tasks of all due times. */
  async dispatch(): Promise<void> {
    await this.#poll();
    await this.#due.ended();
  }

  /** Begins the runs of all due times, and determines the time of the next poll. */
  async #poll(): Promise<void> {
    this.#pollAgain = true;
    this.#polling ??= this.#pollUntilDone();
    await this.#polling;
  }

  async #pollUntilDone(): Promise<void> {
    while (this.#pollAgain) {
      this.#pollAgain = false;
      this.#foundUntil = this.#clock();
      try {
        await this.#adjustToClock(this.#foundUntil);
        await this.#beginDue(this.#foundUntil);
      } catch (error) {
        this.#options.observe({ kind: 'backgroundError', what: 'run due schedules', error });
      }
      await this.#scheduleNextPoll();
    }
    this.#polling = undefined;
  }

  /** At the latest: a poll that is to come earlier remains. */
  #pollAfter(ms: number): void {
    const at = performance.now() + ms;
    if (!this.#started || (this.#timer && this.#timerAt <= at)) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#poll();
    }, ms).unref();
  }

  async #scheduleNextPoll(): Promise<void> {
    if (!this.#started) return;
    const { store, observe } = this.#options;
    // Earlier times run, or could not be run.
    const next = await store.db
      .selectFrom('schedule_times')
      .select('next_at')
      .where(hasNextRun)
      .where('next_at', '>', this.#foundUntil)
      .orderBy('next_at')
      .limit(1)
      .executeTakeFirst()
      .catch((error: unknown) => observe({ kind: 'backgroundError', what: 'run due schedules', error }));
    const wait = (next?.next_at ?? Number.POSITIVE_INFINITY) - this.#clock();
    this.#pollAfter(Math.min(store.isShared ? sharedPollEveryMs : pollEveryMs, Math.max(wait, 0)));
  }

  /** Recomputes times that were computed from a wrong clock. */
  async #adjustToClock(now: number): Promise<void> {
    const { store } = this.#options;
    const outdated = await store.db
      .selectFrom('schedule_times')
      .select('object_id')
      .where('computed_at', '>', now + clockSetBackMsMin)
      .execute();
    for (const { object_id } of outdated)
      await store.transaction(async (tx) => {
        const spec = await specOf(tx, object_id);
        if (spec) await setRow(tx, object_id, timesFrom(spec, now));
      });
  }

  async #beginDue(now: number): Promise<void> {
    const { db } = this.#options.store;
    for (let after = ''; ; ) {
      const due = await db
        .selectFrom('schedule_times')
        .innerJoin('objects', 'objects.id', 'object_id')
        .select(['object_id', 'owner'])
        .where(hasNextRun)
        .where('next_at', '<=', now)
        .where('object_id', '>', after)
        .orderBy('object_id')
        .limit(pageMax)
        .execute();
      if (!this.#started) return;
      for (const { object_id: id, owner } of due) this.#due.add({ id, owner, now });
      this.#due.begin();
      after = due.at(-1)?.object_id ?? after;
      if (due.length < pageMax) return;
    }
  }

  /** Never rejects: a run that fails is retried at the next poll. */
  async #run({ id, now }: DueRun): Promise<void> {
    const { store, observe } = this.#options;
    try {
      await this.#runs?.run(id, now);
    } catch (error) {
      if (!(error instanceof Failure)) observe({ kind: 'backgroundError', what: 'run a schedule', error });
      const message = error instanceof Failure ? error.message : 'an unexpected error occurred in the service';
      await store
        .transaction((tx) => setRow(tx, id, { error: message }))
        .catch((storeError: unknown) =>
          observe({ kind: 'backgroundError', what: 'record the error of a schedule', error: storeError }),
        );
    }
    await this.#scheduleNextPoll();
  }
}

async function specOf(tx: Transaction<Schema>, id: string): Promise<ScheduleSpec | undefined> {
  const row = await tx.selectFrom('objects').select('spec').where('id', '=', id).executeTakeFirst();
  return row && (JSON.parse(row.spec) as ScheduleSpec);
}
