// The types of schedules: their times and actions, as stored in the catalog, and their encrypted secrets. See schedules.ts for how they
// run.
import type { QueryField, ScheduledRequest } from '../api/tasks/schedule_fields.ts';
import type { Actor, Principal, Scope } from '../model/principal.ts';
import type { Static } from '../standard/type.ts';
import type { Notify, Priority } from './task.ts';

export type MissedRuns = 'skip' | 'once' | 'all';

/** A call of an action of the API. */
export interface ScheduledCall {
  /** The URI of the object that the action is called on. */
  readonly on: string;
  readonly action: Static<typeof ScheduledRequest>['action'];
  /** Without secrets, which are stored separately. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface ScheduleSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly cron: string;
  readonly timeZone: string;
  readonly missedRuns: MissedRuns;
  /** With `all`: the maximum number of missed runs to catch up; the last ones. */
  readonly missedRunsMax: number;
  /** Either the task to submit, or the API call that submits it. */
  readonly task?: {
    readonly type: 'run_query';
    readonly request: Static<typeof QueryField> & { readonly numbers: 'number' };
  };
  readonly call?: ScheduledCall;
  readonly priority: Priority;
  /** The webhook to call at the end of each run; its URL is stored separately. */
  readonly notify?: { readonly host: string; readonly signed: boolean } | undefined;
  readonly disabled: boolean;
  /** The user who last defined its action, with the scopes of the token used. It runs only if this is its owner. */
  readonly confirmedBy: { readonly id: string; readonly scopes?: readonly Scope[] };
}

/** The secrets of a schedule, which are not shown. */
export interface ScheduleSecrets {
  readonly notify?: Notify | undefined;
  /** The complete body of its call. */
  readonly body?: ScheduledCall['body'] | undefined;
}

/** Performs a call with the current rights of the principal. Throws the Failure that the call would return. */
export type SubmitCall = (call: ScheduledCall, run: ScheduledRun) => Promise<void>;

export interface ScheduledRun {
  readonly principal: Principal;
  readonly actor: Actor;
  readonly priority: Priority;
  readonly notify: Notify | undefined;
}

/** Throws if the API would refuse the call for every caller. `shown`: without secrets. */
export type CheckCall = (call: {
  readonly on: string;
  readonly action: ScheduledCall['action'];
  readonly body?: ScheduledCall['body'];
}) => {
  readonly shown: ScheduledCall;
  readonly body: ScheduledCall['body'];
};

export const scheduleSecretOf = (id: string): string => `schedule/${id}`;
