// Schedules: when the next of their times comes, and that each is looked at then, through restarts and clocks that jump. What is done
// at a time is schedule_runs.ts'.
import type { Transaction } from 'kysely';
import type { Secrets } from '../access/secrets/secrets.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { hasNextRun } from '../store/migrations/schedules.ts';
import type { Schema } from '../store/schema.ts';
import { CronTimes } from './cron.ts';
import { type ScheduleSecrets, type ScheduleSpec, scheduleSecretOf } from './schedule.ts';
import { ScheduleRuns, type ScheduleRunsOptions, type ScheduleTimes, setRow, timesFrom } from './schedule_runs.ts';

export interface SchedulesOptions extends Omit<ScheduleRunsOptions, 'secrets'> {
  readonly secrets: Pick<Secrets, 'get' | 'put' | 'remove'>;
  readonly observe: Observe;
  readonly clock?: (() => number) | undefined;
}

/** A clock that was set is noticed so soon, and what could not be run is tried again. */
const lookEveryMs = 30_000;
/** A clock that goes back further than this is believed: the times that come again are run again. */
export const believedBackMs = 86_400_000;
const pageMax = 100;
/** Schedules whose runs are made at the same time. */
const atOnceMax = 8;

export class Schedules {
  readonly #options: SchedulesOptions;
  readonly #runs: ScheduleRuns;
  readonly #clock: () => number;
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: SchedulesOptions) {
    this.#options = options;
    this.#runs = new ScheduleRuns(options);
    this.#clock = options.clock ?? Date.now;
  }

  /** Throws CronFault. Says whether a time will ever come. */
  everRuns({ cron, timeZone }: Pick<ScheduleSpec, 'cron' | 'timeZone'>): boolean {
    return new CronTimes(cron, timeZone).after(this.#clock()) !== undefined;
  }

  /** Counts from now on. Part of the change of the schedule; `changed` is to be called after it. */
  async setTimes(tx: Transaction<Schema>, id: string, spec: ScheduleSpec): Promise<void> {
    const row = { ...timesFrom(spec, this.#clock()), error: null };
    await tx
      .insertInto('schedule_times')
      .values({ object_id: id, last_at: null, last_task_id: null, ...row })
      .onConflict((of) => of.column('object_id').doUpdateSet(row))
      .execute();
  }

  /** Part of the change of the schedule. Nothing to keep: what was kept is gone. */
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
    if (this.#started) this.#lookIn(0);
  }

  async timesOf(id: string): Promise<ScheduleTimes | undefined> {
    const { db } = this.#options.store;
    return db.selectFrom('schedule_times').selectAll().where('object_id', '=', id).executeTakeFirst();
  }

  start(): void {
    this.#started = true;
    this.#lookIn(0);
  }

  async stop(): Promise<void> {
    this.#started = false;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  /** Makes the tasks of all times that are over. */
  async look(): Promise<void> {
    this.#lookAgain = true;
    this.#looking ??= this.#lookUntilDone().finally(() => {
      this.#looking = undefined;
    });
    await this.#looking;
  }

  async #lookUntilDone(): Promise<void> {
    while (this.#lookAgain) {
      this.#lookAgain = false;
      try {
        await this.#believeClock();
        await this.#runDue();
      } catch (error) {
        this.#options.observe({ kind: 'backgroundError', what: 'look for schedules to run', error });
      }
    }
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#timer);
    if (!this.#started) return;
    this.#timer = setTimeout(() => void this.look().then(() => this.#lookLater()), ms).unref();
  }

  async #lookLater(): Promise<void> {
    const { store, observe } = this.#options;
    const next = await store.db
      .selectFrom('schedule_times')
      .select('next_at')
      .where(hasNextRun)
      .orderBy('next_at')
      .limit(1)
      .executeTakeFirst()
      .catch((error: unknown) => observe({ kind: 'backgroundError', what: 'look for schedules to run', error }));
    const wait = (next?.next_at ?? Number.POSITIVE_INFINITY) - this.#clock();
    // What is over by now could not be run.
    this.#lookIn(wait <= 0 ? lookEveryMs : Math.min(lookEveryMs, wait));
  }

  /** Times that were worked out from a clock that was wrong are worked out anew. */
  async #believeClock(): Promise<void> {
    const now = this.#clock();
    const { store } = this.#options;
    const ahead = await store.db
      .selectFrom('schedule_times')
      .select('object_id')
      .where('computed_at', '>', now + believedBackMs)
      .execute();
    for (const { object_id } of ahead)
      await store.transaction(async (tx) => {
        const spec = await specOf(tx, object_id);
        if (spec) await setRow(tx, object_id, timesFrom(spec, now));
      });
  }

  async #runDue(): Promise<void> {
    const now = this.#clock();
    const { db } = this.#options.store;
    for (let after = ''; ; ) {
      const due = await db
        .selectFrom('schedule_times')
        .select('object_id')
        .where(hasNextRun)
        .where('next_at', '<=', now)
        .where('object_id', '>', after)
        .orderBy('object_id')
        .limit(pageMax)
        .execute();
      for (let i = 0; i < due.length; i += atOnceMax)
        await Promise.all(due.slice(i, i + atOnceMax).map(({ object_id }) => this.#run(object_id, now)));
      after = due.at(-1)?.object_id ?? after;
      if (due.length < pageMax) return;
    }
  }

  /** What cannot be submitted now is tried at the next look. Never rejects: no look ends before all of its runs have. */
  async #run(id: string, now: number): Promise<void> {
    const { store, observe } = this.#options;
    try {
      await this.#runs.run(id, now);
    } catch (error) {
      if (!(error instanceof Failure)) observe({ kind: 'backgroundError', what: 'run a schedule', error });
      const why = error instanceof Failure ? error.message : 'an unexpected error of the service';
      await store
        .transaction((tx) => setRow(tx, id, { error: why }))
        .catch((again: unknown) =>
          observe({ kind: 'backgroundError', what: 'note why a schedule is late', error: again }),
        );
    }
  }
}

async function specOf(tx: Transaction<Schema>, id: string): Promise<ScheduleSpec | undefined> {
  const row = await tx.selectFrom('objects').select('spec').where('id', '=', id).executeTakeFirst();
  return row && (JSON.parse(row.spec) as ScheduleSpec);
}
