// The runs of one schedule: submits a task for each due time and records, in the same transaction, that the time has passed. A refused run
// is recorded as a failed task, so that it is visible and its webhook is called. A process that makes calls for due times holds the schedule
// by a lease, so that of several servers one makes them.
import assert from 'node:assert/strict';
import type { Selectable, Transaction } from 'kysely';
import type { BoundGuard, Trail } from '../access/audit/audit_log.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import { CronTimes } from '../model/cron_times.ts';
import type { Actor, Principal } from '../model/principal.ts';
import type { Observe } from '../observe/observations.ts';
import { type Code, codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import { uriOf } from '../standard/paths.ts';
import { HeldLeases } from '../store/held_leases.ts';
import { type Lease, LeaseHolder, noLease } from '../store/leases.ts';
import type { ScheduleTimesTable, Schema } from '../store/schema.ts';
import type { Store } from '../store/store.ts';
import {
  type ScheduledCall,
  type ScheduleSecrets,
  type ScheduleSpec,
  type SubmitCall,
  scheduleSecretOf,
} from './schedule.ts';
import type { TaskRequest } from './task.ts';
import type { Tasks } from './tasks.ts';

export type ScheduleTimes = Selectable<ScheduleTimesTable>;

export interface ScheduleRunsOptions {
  readonly store: Store;
  readonly tasks: Pick<Tasks, 'submit' | 'notify' | 'recordFailed'>;
  readonly directory: Pick<Directory, 'isActive' | 'nameOf'>;
  readonly secrets: Pick<Secrets, 'get'>;
  readonly trail: Trail;
  readonly submitCall: SubmitCall;
  /** Whether another server makes the runs, because it has the data; by default, none does. */
  readonly isElsewhere?: ((spec: ScheduleSpec) => Promise<boolean>) | undefined;
  /** This process; by default the only one that uses the store. */
  readonly holder?: LeaseHolder | undefined;
  readonly clock?: (() => number) | undefined;
  readonly observe?: Observe | undefined;
}

/** A run counts as missed when it is late by more than this. */
const missedAfterMs = 60_000;
/** The lease is not renewed for longer: a call takes at most half of it (`ScheduledCalls`), and each recorded run begins it again. */
const callMsMax = 120_000;
/** The task type of refused calls. */
const refusedCallType = 'scheduled_request';

interface Schedule {
  readonly id: string;
  readonly spec: ScheduleSpec;
  readonly secrets: ScheduleSecrets;
  /** Its owner, whose rights its runs have. */
  readonly principal: Principal;
  /** In the audit trail. */
  readonly actor: Actor;
  readonly target: string;
}

/** A schedule with due times. */
interface Due extends Schedule {
  readonly times: readonly number[];
  /** `next_at` of the row as it was read, and the new values. */
  readonly from: number;
  readonly next: Pick<ScheduleTimes, 'next_at' | 'computed_at'>;
}

/** Another server makes the calls of the schedule. Not a Failure: the transaction that submits the task is undone. */
class RunTaken extends Error {
  override name = 'RunTaken';
}

/** Records a run in the transaction that submits its task, or that records its refusal. */
type RecordRun = (tx: Transaction<Schema>, row: Partial<ScheduleTimes>) => Promise<void>;

export class ScheduleRuns {
  readonly #options: ScheduleRunsOptions;
  readonly #holder: LeaseHolder;
  readonly #clock: () => number;
  readonly #held: HeldLeases<string>;

  constructor(options: ScheduleRunsOptions) {
    this.#options = options;
    this.#holder = options.holder ?? new LeaseHolder();
    const { observe = () => {} } = options;
    this.#held = new HeldLeases({
      holder: this.#holder,
      observe,
      holdMsMax: callMsMax,
      renew: (ids) => this.#renew(ids),
    });
    this.#clock = options.clock ?? Date.now;
  }

  /** Submits the tasks of all due times. Throws the reason if that is not possible at the moment. */
  async run(id: string, now: number): Promise<void> {
    const { store, tasks } = this.#options;
    if (await this.#isElsewhere(id)) return;
    const due = await store.transaction(async (tx) => {
      const schedule = await this.#readDue(tx, id, now);
      if (!schedule) return undefined;
      const refusal = this.#refusal(schedule);
      if (refusal === undefined && schedule.spec.call && schedule.times.length > 0) {
        await setRow(tx, id, this.#holder.lease(this.#clock()));
        return schedule;
      }
      await this.#submitAll(tx, schedule, refusal);
      return undefined;
    });
    if (due) await this.#callAll(due);
    tasks.notify();
  }

  async #isElsewhere(id: string): Promise<boolean> {
    const { store, isElsewhere } = this.#options;
    if (!isElsewhere) return false;
    const object = await store.db.selectFrom('objects').select('spec').where('id', '=', id).executeTakeFirst();
    return object !== undefined && isElsewhere(JSON.parse(object.spec) as ScheduleSpec);
  }

  async #callAll(due: Due): Promise<void> {
    try {
      for (const [i, time] of due.times.entries()) {
        this.#held.hold(due.id, due.id);
        await this.#callAt(due, time, i);
      }
    } catch (error) {
      if (!(error instanceof RunTaken)) throw error;
    } finally {
      this.#held.release(due.id);
      await this.#options.store.db
        .updateTable('schedule_times')
        .set(noLease)
        .where('object_id', '=', due.id)
        .where('leased_by', '=', this.#holder.id)
        .execute();
    }
  }

  async #renew(ids: readonly string[]): Promise<string[]> {
    const rows = await this.#options.store.db
      .updateTable('schedule_times')
      .set(this.#holder.lease(this.#clock()))
      .where('object_id', 'in', ids)
      .where('leased_by', '=', this.#holder.id)
      .returning('object_id')
      .execute();
    return rows.map(({ object_id }) => object_id);
  }

  /**
   * Runs a schedule once, whatever its times are, with the rights of its owner, and returns the id of the task. `caller`: in the audit
   * trail. Throws OBJECT_NOT_FOUND, SCHEDULE_NOT_RUNNABLE and what the call throws for the moment; a call that is refused is a task that
   * failed.
   */
  async runNow(id: string, now: number, caller: Actor): Promise<string> {
    const { store, tasks } = this.#options;
    const started = await store.transaction(async (tx) => {
      const found = await this.#read(tx, id);
      if (!found) throw new Failure('OBJECT_NOT_FOUND', 'the schedule no longer exists', { category: 'schedules' });
      const schedule = { ...found, actor: caller };
      const refusal = this.#refusal(schedule);
      if (refusal !== undefined) throw new Failure('SCHEDULE_NOT_RUNNABLE', refusal);
      if (schedule.spec.call) return { schedule };
      return { taskId: await this.#submit(tx, schedule, now, (row) => setRow(tx, id, row)) };
    });
    const taskId = started.schedule
      ? await this.#call(started.schedule, now, (tx, row) => setRow(tx, id, row))
      : started.taskId;
    tasks.notify();
    return taskId;
  }

  async #read(
    tx: Transaction<Schema>,
    id: string,
  ): Promise<(Schedule & Lease & { readonly nextAt: number | null }) | undefined> {
    const { directory, secrets } = this.#options;
    const object = await tx
      .selectFrom('objects')
      .innerJoin('schedule_times', 'schedule_times.object_id', 'objects.id')
      .select(['name', 'owner', 'spec', 'next_at', 'leased_by', 'lease_until'])
      .where('id', '=', id)
      .executeTakeFirst();
    if (!object) return undefined;
    const spec = JSON.parse(object.spec) as ScheduleSpec;
    const { scopes } = spec.confirmedBy;
    const principal = { id: object.owner, name: directory.nameOf(object.owner), ...(scopes ? { scopes } : {}) };
    const target = uriOf('v2', [{ category: 'schedules', name: object.name }]);
    const sealed = spec.notify || spec.call ? await secrets.get(scheduleSecretOf(id), tx) : undefined;
    return {
      id,
      spec,
      secrets: sealed === undefined ? {} : (JSON.parse(sealed) as ScheduleSecrets),
      principal,
      actor: { id: principal.id, name: principal.name, action: 'schedules.run', target },
      target,
      nextAt: object.next_at,
      leased_by: object.leased_by,
      lease_until: object.lease_until,
    };
  }

  async #readDue(tx: Transaction<Schema>, id: string, now: number): Promise<Due | undefined> {
    const schedule = await this.#read(tx, id);
    if (!schedule || schedule.nextAt === null || schedule.nextAt > now) return undefined;
    if (this.#holder.isTaken(schedule, now)) return undefined;
    const { spec, nextAt: from } = schedule;
    return { ...schedule, times: dueTimes(spec, from, now), from, next: timesFrom(spec, now) };
  }

  /** The reason why it cannot run with the rights of its owner. */
  #refusal({ principal, spec }: Schedule): string | undefined {
    if (!this.#options.directory.isActive(principal)) return notActive;
    return isConfirmed(spec, principal) ? undefined : notConfirmed;
  }

  /** Submits tasks with a stored request, and records refused runs, in the transaction. */
  async #submitAll(tx: Transaction<Schema>, due: Due, refusal: string | undefined): Promise<void> {
    let last: Partial<ScheduleTimes> = {};
    const recordLast = async (row: Partial<ScheduleTimes>) => {
      last = row;
    };
    for (const time of due.times) {
      if (refusal === undefined) await this.#submit(tx, due, time, recordLast);
      else if (isConfirmed(due.spec, due.principal)) {
        // Without the confirmation of its owner, no webhook is called.
        last = await this.#refuse(tx, due, time, new Failure('FORBIDDEN', refusal));
      }
    }
    const { numUpdatedRows } = await tx
      .updateTable('schedule_times')
      .set({ ...due.next, ...last, error: refusal ?? null })
      .where('object_id', '=', due.id)
      .where('next_at', '=', due.from)
      .executeTakeFirst();
    assert.equal(numUpdatedRows, 1n, 'the times of the schedule have changed');
  }

  /** Submits the stored request of a schedule, and returns the id of the task. */
  async #submit(
    tx: Transaction<Schema>,
    schedule: Schedule,
    time: number,
    record: (row: Partial<ScheduleTimes>) => Promise<void>,
  ): Promise<string> {
    const { spec, principal, actor, target, secrets } = schedule;
    const task = spec.task as NonNullable<ScheduleSpec['task']>;
    const { priority } = spec;
    const request: TaskRequest = { ...task, principal, target, priority, notify: secrets.notify, guard: actor.guard };
    const { taskId } = await this.#options.tasks.submit(request, tx);
    await record({ last_at: time, last_task_id: taskId, error: null });
    await this.#audit(tx, schedule, time, taskId, '0');
    return taskId;
  }

  /** Makes the call of one due time. The transaction that submits its task records that the time has passed. */
  async #callAt(due: Due, time: number, i: number): Promise<void> {
    const after = { computed_at: due.next.computed_at, next_at: due.times[i + 1] ?? due.next.next_at };
    const before = i === 0 ? due.from : time;
    await this.#call(due, time, async (tx, row) => {
      const lease = this.#holder.lease(this.#clock());
      const times = tx.updateTable('schedule_times').set({ ...after, ...row, ...lease });
      const held = times.where('object_id', '=', due.id).where('leased_by', '=', this.#holder.id);
      const { numUpdatedRows } = await held.where('next_at', '=', before).executeTakeFirst();
      if (numUpdatedRows !== 1n) await this.#requireHeld(tx, due.id);
    });
  }

  /** If the schedule was changed or deleted meanwhile, it has other times; the task then counts as submitted just before. Throws RunTaken. */
  async #requireHeld(tx: Transaction<Schema>, id: string): Promise<void> {
    const times = tx.selectFrom('schedule_times').select('leased_by').where('object_id', '=', id);
    const row = await times.executeTakeFirst();
    if (row && row.leased_by !== this.#holder.id) throw new RunTaken('another server makes the calls of the schedule');
  }

  /** Makes the call of a schedule as its owner, and returns the id of the task. */
  async #call(schedule: Schedule, time: number, record: RecordRun): Promise<string> {
    const { store, submitCall, trail } = this.#options;
    const { spec, secrets, principal, actor } = schedule;
    const seen = new WeakSet<Transaction<Schema>>();
    let submitted: string | undefined;
    const recordRun = async (tx: Transaction<Schema>, taskId: string | undefined): Promise<void> => {
      if (seen.has(tx) || taskId === undefined) return;
      seen.add(tx);
      submitted = taskId;
      await record(tx, { last_at: time, last_task_id: taskId, error: null });
      await trail.markKeyDone(tx, actor.guard, taskId);
      await this.#audit(tx, schedule, time, taskId, '0');
    };
    const guard: BoundGuard = { owner: principal.id, key: '', keyId: '', recordChange: recordRun };
    const call = { ...(spec.call as ScheduledCall), ...(secrets.body ? { body: secrets.body } : {}) };
    const { priority } = spec;
    const owner = { id: principal.id, name: principal.name, action: 'schedules.run', target: schedule.target, guard };
    try {
      await submitCall(call, { principal, actor: owner, priority, notify: secrets.notify });
    } catch (error) {
      if (!(error instanceof Failure) || codes[error.code].status >= 500) throw error;
      return await store.transaction(async (tx) => {
        const row = await this.#refuse(tx, schedule, time, error);
        await record(tx, { ...row, error: error.message });
        return row.last_task_id;
      });
    }
    assert(submitted !== undefined, 'the call of a schedule submitted no task');
    return submitted;
  }

  /** Records a run as a task that failed before it started. */
  async #refuse(tx: Transaction<Schema>, schedule: Schedule, time: number, { code, message, result }: Failure) {
    const { spec, principal, actor, target, secrets } = schedule;
    const work = spec.task ?? { type: refusedCallType, request: spec.call };
    const { priority } = spec;
    const { notify } = secrets;
    const request: TaskRequest = { ...work, principal, target, priority, notify };
    const error = Object.keys(result).length > 0 ? { code, message, result } : { code, message };
    const { tasks, trail } = this.#options;
    const taskId = await tasks.recordFailed(request, error, tx);
    await trail.markKeyDone(tx, actor.guard, taskId);
    await this.#audit(tx, schedule, time, taskId, code);
    return { last_at: time, last_task_id: taskId };
  }

  async #audit(tx: Transaction<Schema>, { id, actor }: Schedule, time: number, taskId: string, outcome: Code | '0') {
    const details = { taskId, time: new Date(time).toISOString() };
    await this.#options.trail.append(tx, actor, { outcome, objectId: id, details });
  }
}

const notActive = 'the owner of the schedule is disabled';
const notConfirmed = 'the owner of the schedule has not confirmed its action';

const isConfirmed = ({ confirmedBy }: ScheduleSpec, owner: Principal) => confirmedBy.id === owner.id;

export function timesFrom({ cron, timeZone, disabled }: ScheduleSpec, now: number) {
  const next_at = disabled ? null : (new CronTimes(cron, timeZone).after(now) ?? null);
  return { next_at, computed_at: now };
}

/** The times from `from` to `now` that must be run. */
function dueTimes(spec: ScheduleSpec, from: number, now: number): number[] {
  const { cron, timeZone, missedRuns, missedRunsMax } = spec;
  const due = new CronTimes(cron, timeZone).between(from, now, missedRuns === 'all' ? missedRunsMax : 1);
  return missedRuns === 'skip' ? due.filter((time) => now - time <= missedAfterMs) : due;
}

export async function setRow(tx: Transaction<Schema>, id: string, row: Partial<ScheduleTimes>): Promise<void> {
  await tx.updateTable('schedule_times').set(row).where('object_id', '=', id).execute();
}
