// What a schedule is: its times and what is done at them, as the catalog keeps it, and what is kept sealed beside it. Who runs it is
// schedules.ts.
import type { Actor, Principal, Scope } from '../model/principal.ts';
import type { Notify, Priority } from './task.ts';

export type MissedRuns = 'skip' | 'once' | 'all';

/** An action of the API, as a schedule asks for it. */
export interface ScheduledCall {
  /** The URI of the object that it is an action of. */
  readonly on: string;
  readonly action: string;
  /** Without what is secret, which is kept apart. */
  readonly body: Readonly<Record<string, unknown>>;
}

export interface ScheduleSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly cron: string;
  readonly timeZone: string;
  readonly missedRuns: MissedRuns;
  /** How many are made good with `all`; the last ones. */
  readonly missedRunsMax: number;
  /** What it does: a task of this type and request, or what a call of the API submits. One of the two is there. */
  readonly task?: { readonly type: string; readonly request: unknown };
  readonly call?: ScheduledCall;
  readonly priority: Priority;
  /** Who is told of the end of each run; the address is kept apart. */
  readonly notify?: { readonly host: string; readonly signed: boolean } | undefined;
  readonly disabled: boolean;
  /** Who said last what it does, and what the token was confined to that said it. Only its owner's word counts. */
  readonly confirmedBy: { readonly id: string; readonly scopes?: readonly Scope[] };
}

/** What is not shown of a schedule. */
export interface ScheduleSecrets {
  readonly notify?: Notify | undefined;
  /** The whole body of its call. */
  readonly body?: ScheduledCall['body'] | undefined;
}

/** Submits what a call asks for, with the rights that the principal has now. Throws the Failure that the call would answer. */
export type SubmitCall = (
  call: ScheduledCall,
  run: {
    readonly principal: Principal;
    readonly actor: Actor;
    readonly priority: Priority;
    readonly notify: Notify | undefined;
  },
) => Promise<void>;

/** Throws where the API would refuse it whoever asked. `shown`: without what is secret. */
export type CheckCall = (call: {
  readonly on: string;
  readonly action: string;
  readonly body?: ScheduledCall['body'];
}) => {
  readonly shown: ScheduledCall;
  readonly body: ScheduledCall['body'];
};

export const scheduleSecretOf = (id: string): string => `schedule/${id}`;
