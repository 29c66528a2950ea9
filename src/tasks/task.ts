// The types of tasks, for the modules that submit, run and show them. See tasks.ts for the queue and the runner.
import type { Kysely } from 'kysely';
import type { TaskResultOf, TaskType } from '../api/tasks/task_types.ts';
import type { Actor, Guard, ObjectVersion, Principal } from '../model/principal.ts';
import type { Code } from '../standard/codes.ts';
import type { Schema, TaskState } from '../store/schema.ts';
import type { Store } from '../store/store.ts';

export type { TaskState };

export interface TaskError {
  readonly code: Code;
  readonly message: string;
  readonly result?: Readonly<Record<string, unknown>>;
}

/**
 * The stored request of each type of task. The module that defines a request adds it here (`declare module`). Tasks of changes and refused
 * runs of schedules store the request only to show it.
 */
export interface StoredRequests {
  readonly [unknownType: string]: unknown;
  readonly alter_table: object;
  readonly rename_database: object;
  readonly undrop_table: object;
  readonly undrop_database: object;
  readonly scheduled_request: object | undefined;
}
export type ResultOf<T extends string> = T extends TaskType ? TaskResultOf<T> : unknown;

/** Task priorities in queue order; the store has the index in this list. */
export const priorities = ['high', 'normal', 'low'] as const;
export type Priority = (typeof priorities)[number];

/** The progress of work. `total` null: unknown. */
export interface Amount {
  readonly done: number;
  readonly total: number | null;
  /** In the plural, such as `rows` or `bytes`. */
  readonly unit: string;
}

/** The webhook to call when a task ends. */
export interface Notify {
  readonly url: string;
  /** The key that the request is signed with. */
  readonly secret?: string | undefined;
}

/** The delivery state of a webhook. The URL is not included, because it may be a secret. */
export interface WebhookState {
  readonly host: string;
  readonly signed: boolean;
  readonly state: 'waiting' | 'sent' | 'failed';
  readonly attempts: number;
  /** Why the last attempt failed. */
  readonly error: string | null;
}

/** Times are RFC 3339 with milliseconds and `Z`. `progress` is 0 to 1, null if unknown. */
export interface TaskRecord<T extends string = string> {
  readonly taskId: string;
  readonly type: T;
  readonly state: TaskState;
  readonly progress: number | null;
  readonly progressText: string | null;
  /** The end extrapolated from the progress; null if unknown. */
  readonly expectedEndAt: string | null;
  readonly priority: Priority;
  /** Ids of the tasks that must succeed before it starts. */
  readonly after: readonly string[];
  readonly notify: WebhookState | null;
  /** The principal with whose rights it runs. */
  readonly principal: Principal;
  readonly submittedBy: string;
  readonly submittedAt: string;
  /** The only server that runs it and has its result; null: any. */
  readonly serverId: string | null;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly attempt: number;
  readonly target: string;
  readonly request: StoredRequests[T];
  /** Null unless it has succeeded. */
  readonly result: ResultOf<T> | null;
  readonly error: TaskError | null;
}

/** For the audit records of what a task does when it runs. */
export const actorOfTask = ({ principal, target }: Pick<TaskRecord, 'principal' | 'target'>): Actor => ({
  id: principal.id,
  name: principal.name,
  action: 'tasks.run',
  target,
});

/** A task of one of the types that this release knows. */
export type StoredTask = { readonly [T in TaskType]: TaskRecord<T> }[TaskType];

/** For a generic type; otherwise a comparison of `task.type` narrows a stored task. */
export const isOfType = <T extends TaskType>(task: TaskRecord, type: T): task is TaskRecord<T> => task.type === type;

/** The version of a task, by its last change of state. */
export const versionOfTask = ({
  taskId,
  startedAt,
  endedAt,
}: Pick<TaskRecord, 'taskId' | 'startedAt' | 'endedAt'>): ObjectVersion => ({
  objectId: taskId,
  category: 'tasks',
  name: taskId,
  version: endedAt ? 3 : startedAt ? 2 : 1,
});

/**
 * Throws if the task has ended or another runner has taken it over: this run then stores and deletes nothing any more. With a transaction,
 * what that writes is written only while the task is held.
 */
export type RequireHeld = (db: Kysely<Schema>) => Promise<void>;

export interface TaskContext {
  readonly signal: AbortSignal;
  /** Reports an amount, or a fraction with a text; `null`: unknown. Written to the store at most once a second. */
  progress(amount: Amount | number | null, text?: string): void;
  /** The task was started before and may have left partial work, even if that run did not count as an attempt. */
  readonly isRetry: boolean;
  readonly store: Store;
  readonly requireHeld: RequireHeld;
}

/** What work that became a task while it ran knows of the task. */
export type AdoptedContext = Pick<TaskContext, 'signal' | 'progress' | 'requireHeld'>;

export interface TaskKind<T extends string = string> {
  readonly type: T;
  /** The maximum number of attempts. */
  readonly attemptsMax: number;
  /** Runs with the rights of its principal: it is cancelled when the principal is disabled. */
  readonly actsAsPrincipal?: boolean;
  /** The server on which it succeeded has its result in the data directory, even if any server may run it. */
  readonly leavesResult?: boolean;
  /** What it made is found by it after its end: it counts towards a limit of its own for being deleted before its retention time. */
  readonly isNeededAfterEnd?: boolean;
  /**
   * All its runs write files of the same names, outside the engines and the store: what a run has begun to write must have ended before another
   * server continues it. Other work counts once although two runs do it: by its step, or by a transaction in which the task is held.
   */
  readonly writesFiles?: boolean;
  /** Absent: tasks of this type are only adopted or recorded, and fail with TASK_INTERRUPTED when their process dies. */
  run?(task: TaskRecord<T>, context: TaskContext): Promise<ResultOf<T>>;
  /** Whether the work of a task counts although it has not ended: then it is too late to cancel it, and it runs until it has succeeded. */
  isDecided?(task: TaskRecord<T>): Promise<boolean>;
  /** Called whenever a task ends. The call can be lost in a crash. */
  ended?(task: TaskRecord<T>): Promise<void>;
  /** Called when a task ended outside of `run`: cancelled while pending, or failed at a restart. The call can be lost in a crash. */
  abandoned?(task: TaskRecord<T>): Promise<void>;
  /** Deletes the files of a task that is being deleted. Idempotent. */
  removed?(task: TaskRecord<T>): Promise<void>;
}

export interface TaskRequest<T extends string = string> {
  /** For a task whose id must be known in advance; generated if absent. */
  readonly taskId?: string;
  readonly type: T;
  readonly principal: Principal;
  readonly guard?: Guard | undefined;
  /** The actor and the object of the audit event for the submission; absent if another event covers it. */
  readonly submissionAudit?: { readonly actor: Actor; readonly objectId: string } | undefined;
  /** URI of the object. */
  readonly target: string;
  /** The only server that may run it (task_server.ts). */
  readonly serverId?: string | null;
  readonly request: StoredRequests[T];
  /** Defaults to `normal`. */
  readonly priority?: Priority | undefined;
  /** Ids of tasks that must succeed before it starts. The caller has checked that the submitter may see them. */
  readonly after?: readonly string[] | undefined;
  /** The caller has checked that its host is allowed. */
  readonly notify?: Notify | undefined;
}

/** A transient failure: the task is retried after a delay. All other errors, except a Failure with status 503, end it. */
export class RetryableError extends Error {
  override name = 'RetryableError';
  readonly retryAfterMs: number | undefined;
  constructor(message: string, options: { readonly cause?: unknown; readonly retryAfterMs?: number } = {}) {
    super(message, { cause: options.cause });
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Abort reason: the server stops and returns the task to the queue; the next runner continues it. Nothing must be undone. */
export class HandedBack extends Error {
  override name = 'HandedBack';
}

/** Abort reason: the task was cancelled. Also thrown by a task that finds in its object that it was. */
export class Cancelled extends Error {
  override name = 'Cancelled';
}
