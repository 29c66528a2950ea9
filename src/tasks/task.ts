// What a task is, to those who submit, run and show them. The queue and the runner are tasks.ts.
import type { Actor, Basis, Guard, Principal } from '../model/principal.ts';
import type { TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export type { TaskState };

export interface TaskError {
  readonly code: string;
  readonly message: string;
  readonly result?: unknown;
}

/** Which of the tasks that could begin goes first; the position in the list is what the store keeps. */
export const priorities = ['high', 'normal', 'low'] as const;
export type Priority = (typeof priorities)[number];

/** How far work has come. `total` null: nobody knows. */
export interface Amount {
  readonly done: number;
  readonly total: number | null;
  /** In the plural, such as `rows` or `bytes`. */
  readonly unit: string;
}

/** Who is to be told of a task's end. */
export interface Notify {
  readonly url: string;
  /** What the notice is signed with. */
  readonly secret?: string | undefined;
}

/** What became of a notice. The address is not shown: it may be a secret. */
export interface WebhookState {
  readonly host: string;
  readonly signed: boolean;
  readonly state: 'waiting' | 'sent' | 'failed';
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | null;
}

/** Times are RFC 3339 with milliseconds and `Z`. `progress` is 0 to 1, null if unknown. */
export interface TaskRecord {
  readonly taskId: string;
  readonly type: string;
  readonly state: TaskState;
  readonly progress: number | null;
  readonly progressText: string | null;
  /** When it will have ended, should it go on as it has; null if unknown. */
  readonly expectedEndAt: string | null;
  readonly priority: Priority;
  /** Ids of the tasks that have to succeed before it begins. */
  readonly after: readonly string[];
  readonly notify: WebhookState | null;
  /** With which rights it runs. */
  readonly principal: Principal;
  readonly submittedBy: string;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly attempt: number;
  readonly target: string;
  readonly request: unknown;
  readonly result: unknown;
  readonly error: TaskError | null;
}

/** Its version is that of its record. */
export const basisOfTask = ({
  taskId,
  startedAt,
  endedAt,
}: Pick<TaskRecord, 'taskId' | 'startedAt' | 'endedAt'>): Basis => ({
  objectId: taskId,
  category: 'tasks',
  name: taskId,
  version: endedAt ? 3 : startedAt ? 2 : 1,
});

export interface TaskContext {
  readonly signal: AbortSignal;
  /** An amount, or a fraction and how to say it; `null`: unknown. Written to the store at most once a second. */
  progress(at: Amount | number | null, text?: string): void;
  /** It was begun before, and may have left something: also where that does not count as an attempt. */
  readonly isAgain: boolean;
  readonly store: Store;
}

export interface TaskKind {
  readonly type: string;
  /** How often a task is begun before it fails for good. */
  readonly attemptsMax: number;
  /** It does what its principal may: it is stopped when that may no longer act. */
  readonly actsAsPrincipal?: boolean;
  /** Absent: tasks of this type are only adopted or recorded, and end TASK_INTERRUPTED when their process dies. */
  run?(task: TaskRecord, context: TaskContext): Promise<unknown>;
  /** Called at every end. May be lost in a crash. */
  ended?(task: TaskRecord): Promise<void>;
  /** Called when a task ended without `run` having seen it end: cancelled while pending, or given up at a start. May be lost in a crash. */
  abandoned?(task: TaskRecord): Promise<void>;
  /** Deletes the files of a task that is being removed. Idempotent. */
  removed?(task: TaskRecord): Promise<void>;
}

export interface TaskRequest {
  /** For a task whose id has to be known before; without it, a new one. */
  readonly taskId?: string;
  readonly type: string;
  readonly principal: Principal;
  readonly guard?: Guard | undefined;
  /** Whose line of the audit trail tells of the submission, and of which object; left out where others tell of it. */
  readonly toTell?: { readonly actor: Actor; readonly objectId: string } | undefined;
  /** URI of the object. */
  readonly target: string;
  readonly request: unknown;
  /** By default `normal`. */
  readonly priority?: Priority | undefined;
  /** Ids of tasks that have to succeed before it begins; who submits it has been found to see them. */
  readonly after?: readonly string[] | undefined;
  /** Found to be allowed. */
  readonly notify?: Notify | undefined;
}

/** A failure that may pass: the task runs again after a pause. Any other, a Failure of status 503 apart, ends it. */
export class RetryableError extends Error {
  override name = 'RetryableError';
  readonly retryAfterMs: number | undefined;
  constructor(message: string, options: { readonly cause?: unknown; readonly retryAfterMs?: number } = {}) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Reason of an abort: the server stops and hands the task back; whoever runs next goes on with it. Nothing is to be undone. */
export class HandedBack extends Error {
  override name = 'HandedBack';
}

/** Reason of an abort: somebody cancelled the task. */
export class Cancelled extends Error {
  override name = 'Cancelled';
}
