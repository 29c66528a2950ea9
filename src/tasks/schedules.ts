// Schedules: at the times of a cron expression, a task. The task and the note that its time is over are one transaction, so that each
// time has its tasks once, through crashes, restarts and clocks that jump. A schedule runs as its owner, with the rights that the owner
// has then, and only what the owner has confirmed.
import type { Selectable, Transaction } from 'kysely';
import type { Trail } from '../access/audit.ts';
import type { Directory } from '../access/directory.ts';
import type { Principal, Scope } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { Failure } from '../standard/failure.ts';
import { uriOf } from '../standard/paths.ts';
import { timed } from '../store/schedules_migration.ts';
import type { ScheduleTimesTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import { CronTimes } from './cron.ts';
import type { Priority, TaskRequest } from './task.ts';
import type { Tasks } from './tasks.ts';

export type MissedRuns = 'skip' | 'once' | 'all';

export interface ScheduleSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly cron: string;
  readonly timeZone: string;
  readonly missedRuns: MissedRuns;
  /** How many are made good with `all`; the last ones. */
  readonly missedRunsMax: number;
  /** The type of the task, and its request. */
  readonly task: { readonly type: string; readonly request: unknown };
  readonly priority: Priority;
  readonly disabled: boolean;
  /** Who said last what it does, and what the token was confined to that said it. Only its owner's word counts. */
  readonly confirmedBy: { readonly id: string; readonly scopes?: readonly Scope[] };
}

export type ScheduleTimes = Selectable<ScheduleTimesTable>;

export interface SchedulesOptions {
  readonly store: Store;
  readonly tasks: Pick<Tasks, 'submit' | 'notify'>;
  readonly directory: Pick<Directory, 'isActive' | 'nameOf'>;
  readonly trail: Trail;
  readonly observe: Observe;
  readonly clock?: (() => number) | undefined;
}

/** A clock that was set is noticed so soon, and what could not be run is tried again. */
const lookEveryMs = 30_000;
/** A time is missed once it is so far back. */
export const missedAfterMs = 60_000;
/** A clock that goes back further than this is believed: the times that come again are run again. */
export const believedBackMs = 86_400_000;
const pageMax = 100;

export class Schedules {
  readonly #options: SchedulesOptions;
  readonly #clock: () => number;
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #looking: Promise<void> | undefined;
  #lookAgain = false;

  constructor(options: SchedulesOptions) {
    this.#options = options;
    this.#clock = options.clock ?? Date.now;
  }

  /** Throws CronFault. Says whether a time will ever come. */
  everRuns({ cron, timeZone }: Pick<ScheduleSpec, 'cron' | 'timeZone'>): boolean {
    return new CronTimes(cron, timeZone).after(this.#clock()) !== undefined;
  }

  /** Counts from now on. Part of the change of the schedule; `changed` is to be called after it. */
  async setTimes(tx: Transaction<Schema>, id: string, spec: ScheduleSpec): Promise<void> {
    const row = { ...this.#timesFrom(spec, this.#clock()), error: null };
    await tx
      .insertInto('schedule_times')
      .values({ object_id: id, last_at: null, last_task_id: null, ...row })
      .onConflict((of) => of.column('object_id').doUpdateSet(row))
      .execute();
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
      .where(timed)
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
        if (spec) await setRow(tx, object_id, this.#timesFrom(spec, now));
      });
  }

  async #runDue(): Promise<void> {
    const now = this.#clock();
    const { db } = this.#options.store;
    for (let after = ''; ; ) {
      const due = await db
        .selectFrom('schedule_times')
        .select('object_id')
        .where(timed)
        .where('next_at', '<=', now)
        .where('object_id', '>', after)
        .orderBy('object_id')
        .limit(pageMax)
        .execute();
      for (const { object_id } of due) {
        after = object_id;
        await this.#run(object_id, now);
      }
      if (due.length < pageMax) return;
    }
  }

  /** What cannot be submitted now is tried at the next look. */
  async #run(id: string, now: number): Promise<void> {
    const { store, tasks, observe } = this.#options;
    try {
      await store.transaction((tx) => this.#submitDue(tx, id, now));
      tasks.notify();
    } catch (error) {
      if (!(error instanceof Failure)) observe({ kind: 'backgroundError', what: 'run a schedule', error });
      const why = error instanceof Failure ? error.message : 'an unexpected error of the service';
      await store.transaction((tx) => setRow(tx, id, { error: why }));
    }
  }

  async #submitDue(tx: Transaction<Schema>, id: string, now: number): Promise<void> {
    const object = await tx
      .selectFrom('objects')
      .innerJoin('schedule_times', 'schedule_times.object_id', 'objects.id')
      .select(['name', 'owner', 'spec', 'next_at'])
      .where('id', '=', id)
      .executeTakeFirst();
    if (!object || object.next_at === null || object.next_at > now) return;
    const spec = JSON.parse(object.spec) as ScheduleSpec;
    const next = this.#timesFrom(spec, now);
    const due = dueTimes(spec, object.next_at, now);
    const principal = this.#principalOf(object.owner, spec);
    if (typeof principal === 'string') return setRow(tx, id, { ...next, error: principal });
    const target = uriOf('v2', [{ category: 'schedules', name: object.name }]);
    let last: { last_at: number; last_task_id: string } | undefined;
    for (const time of due) {
      const request: TaskRequest = { ...spec.task, principal, target, priority: spec.priority };
      const { taskId } = await this.#options.tasks.submit(request, tx);
      const actor = { id: principal.id, name: principal.name, action: 'schedules.run', target };
      const details = { taskId, time: new Date(time).toISOString() };
      await this.#options.trail.append(tx, actor, { outcome: '0', objectId: id, details });
      last = { last_at: time, last_task_id: taskId };
    }
    await setRow(tx, id, { ...next, ...last, error: null });
  }

  /** Whose rights it has, or why nobody's. */
  #principalOf(owner: string, { confirmedBy }: ScheduleSpec): Principal | string {
    const { directory } = this.#options;
    const { scopes } = confirmedBy;
    const principal = { id: owner, name: directory.nameOf(owner), ...(scopes ? { scopes } : {}) };
    if (!directory.isActive(principal)) return 'its owner may not act any more';
    return confirmedBy.id === owner ? principal : 'its owner has not confirmed what it does';
  }

  #timesFrom({ cron, timeZone, disabled }: ScheduleSpec, now: number) {
    const next_at = disabled ? null : (new CronTimes(cron, timeZone).after(now) ?? null);
    return { next_at, computed_at: now };
  }
}

/** The times that are to be run of those from `from` to `now`. */
export function dueTimes(spec: ScheduleSpec, from: number, now: number): number[] {
  const { cron, timeZone, missedRuns, missedRunsMax } = spec;
  const due = new CronTimes(cron, timeZone).between(from, now, missedRuns === 'all' ? missedRunsMax : 1);
  return missedRuns === 'skip' ? due.filter((time) => now - time <= missedAfterMs) : due;
}

async function setRow(tx: Transaction<Schema>, id: string, row: Partial<ScheduleTimes>): Promise<void> {
  await tx.updateTable('schedule_times').set(row).where('object_id', '=', id).execute();
}

async function specOf(tx: Transaction<Schema>, id: string): Promise<ScheduleSpec | undefined> {
  const row = await tx.selectFrom('objects').select('spec').where('id', '=', id).executeTakeFirst();
  return row && (JSON.parse(row.spec) as ScheduleSpec);
}
