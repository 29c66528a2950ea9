// The runs of one schedule: submits a task for each due time and records, in the same transaction, that the time has passed. A refused run
// is recorded as a failed task, so that it is visible and its webhook is called.
import type { Selectable, Transaction } from 'kysely';
import type { BoundGuard, Trail } from '../access/audit/audit_log.ts';
import type { Directory } from '../access/authorization/directory.ts';
import type { Secrets } from '../access/secrets/secrets.ts';
import { CronTimes } from '../model/cron_times.ts';
import type { Actor, Principal } from '../model/principal.ts';
import { type Code, codes } from '../standard/codes.ts';
import { Failure } from '../standard/failure.ts';
import { uriOf } from '../standard/paths.ts';
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
}

/** A run counts as missed when it is late by more than this. */
export const missedAfterMs = 60_000;
/** The task type of refused calls. */
export const refusedCallType = 'scheduled_request';

/** A schedule with due times. */
interface Due {
  readonly id: string;
  readonly spec: ScheduleSpec;
  readonly secrets: ScheduleSecrets;
  readonly principal: Principal;
  readonly actor: Actor;
  readonly times: readonly number[];
  /** `next_at` of the row as it was read, and the new values. */
  readonly from: number;
  readonly next: Pick<ScheduleTimes, 'next_at' | 'computed_at'>;
}

/** Called after the commit. */
type CommitCallback = () => void;

export class ScheduleRuns {
  readonly #options: ScheduleRunsOptions;

  constructor(options: ScheduleRunsOptions) {
    this.#options = options;
  }

  /** Submits the tasks of all due times. Throws the reason if that is not possible at the moment. */
  async run(id: string, now: number): Promise<void> {
    const { store, tasks } = this.#options;
    const committed: CommitCallback[] = [];
    const due = await store.transaction(async (tx) => {
      const schedule = await this.#readDue(tx, id, now);
      if (!schedule) return undefined;
      const refusal = this.#refusal(schedule);
      if (refusal === undefined && schedule.spec.call && schedule.times.length > 0) return schedule;
      committed.push(...(await this.#submitAll(tx, schedule, refusal)));
      return undefined;
    });
    for (const notify of committed) notify();
    if (due) for (const [i, time] of due.times.entries()) await this.#call(due, time, i);
    tasks.notify();
  }

  async #readDue(tx: Transaction<Schema>, id: string, now: number): Promise<Due | undefined> {
    const { directory, secrets } = this.#options;
    const object = await tx
      .selectFrom('objects')
      .innerJoin('schedule_times', 'schedule_times.object_id', 'objects.id')
      .select(['name', 'owner', 'spec', 'next_at'])
      .where('id', '=', id)
      .executeTakeFirst();
    if (!object || object.next_at === null || object.next_at > now) return undefined;
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
      times: dueTimes(spec, object.next_at, now),
      from: object.next_at,
      next: timesFrom(spec, now),
    };
  }

  /** The reason why it cannot run with the rights of its owner. */
  #refusal({ principal, spec }: Due): string | undefined {
    if (!this.#options.directory.isActive(principal)) return notActive;
    return isConfirmed(spec, principal) ? undefined : notConfirmed;
  }

  /** Submits tasks with a stored request, and records refused runs, in the transaction. */
  async #submitAll(tx: Transaction<Schema>, due: Due, refusal: string | undefined): Promise<CommitCallback[]> {
    const { spec, principal, actor, secrets } = due;
    const committed: CommitCallback[] = [];
    let last: Partial<ScheduleTimes> = {};
    for (const time of due.times) {
      if (refusal === undefined) {
        const task = spec.task as NonNullable<ScheduleSpec['task']>;
        const { priority } = spec;
        const { notify } = secrets;
        const request: TaskRequest = { ...task, principal, target: actor.target as string, priority, notify };
        const { taskId } = await this.#options.tasks.submit(request, tx);
        await this.#audit(tx, due, time, taskId, '0');
        last = { last_at: time, last_task_id: taskId };
      } else if (isConfirmed(spec, principal)) {
        // Without the confirmation of its owner, no webhook is called.
        const refused = await this.#refuse(tx, due, time, new Failure('FORBIDDEN', refusal));
        committed.push(refused.committed);
        last = refused.row;
      }
    }
    await setRow(tx, due.id, { ...due.next, ...last, error: refusal ?? null });
    return committed;
  }

  /** Runs an API call for one due time. The transaction that submits the task of the call records that the time has passed. */
  async #call(due: Due, time: number, i: number): Promise<void> {
    const { store, submitCall } = this.#options;
    const { id, spec, secrets, principal, actor } = due;
    const after = { computed_at: due.next.computed_at, next_at: due.times[i + 1] ?? due.next.next_at };
    const before = i === 0 ? due.from : time;
    const seen = new WeakSet<Transaction<Schema>>();
    const recordRun = async (tx: Transaction<Schema>, taskId: string | undefined): Promise<void> => {
      if (seen.has(tx) || taskId === undefined) return;
      seen.add(tx);
      // If the schedule was changed or deleted meanwhile, it has other times; the task then counts as submitted just before.
      await tx
        .updateTable('schedule_times')
        .set({ ...after, last_at: time, last_task_id: taskId, error: null })
        .where('object_id', '=', id)
        .where('next_at', '=', before)
        .execute();
      await this.#audit(tx, due, time, taskId, '0');
    };
    const guard: BoundGuard = { owner: principal.id, key: '', keyId: '', recordChange: recordRun };
    const call = { ...(spec.call as ScheduledCall), ...(secrets.body ? { body: secrets.body } : {}) };
    const { priority } = spec;
    try {
      await submitCall(call, { principal, actor: { ...actor, guard }, priority, notify: secrets.notify });
    } catch (error) {
      if (!(error instanceof Failure) || codes[error.code].status >= 500) throw error;
      const { committed } = await store.transaction(async (tx) => {
        const refused = await this.#refuse(tx, due, time, error);
        await setRow(tx, id, { ...after, ...refused.row, error: error.message });
        return refused;
      });
      committed();
    }
  }

  /** Records a run as a task that failed before it started. */
  async #refuse(tx: Transaction<Schema>, due: Due, time: number, { code, message, result }: Failure) {
    const { spec, principal, actor, secrets } = due;
    const work = spec.task ?? { type: refusedCallType, request: spec.call };
    const { priority } = spec;
    const { notify } = secrets;
    const request: TaskRequest = { ...work, principal, target: actor.target as string, priority, notify };
    const error = Object.keys(result).length > 0 ? { code, message, result } : { code, message };
    const { taskId, committed } = await this.#options.tasks.recordFailed(request, error, tx);
    await this.#audit(tx, due, time, taskId, code);
    return { committed, row: { last_at: time, last_task_id: taskId } };
  }

  async #audit(tx: Transaction<Schema>, due: Due, time: number, taskId: string, outcome: Code | '0'): Promise<void> {
    const details = { taskId, time: new Date(time).toISOString() };
    await this.#options.trail.append(tx, due.actor, { outcome, objectId: due.id, details });
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
export function dueTimes(spec: ScheduleSpec, from: number, now: number): number[] {
  const { cron, timeZone, missedRuns, missedRunsMax } = spec;
  const due = new CronTimes(cron, timeZone).between(from, now, missedRuns === 'all' ? missedRunsMax : 1);
  return missedRuns === 'skip' ? due.filter((time) => now - time <= missedAfterMs) : due;
}

export async function setRow(tx: Transaction<Schema>, id: string, row: Partial<ScheduleTimes>): Promise<void> {
  await tx.updateTable('schedule_times').set(row).where('object_id', '=', id).execute();
}
