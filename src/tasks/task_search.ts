// What tasks are searched by, as conditions of the store.
import { type RawBuilder, sql } from 'kysely';
import type { TaskState } from '../store/schema.ts';

/** All that is given must fit. Times in milliseconds since 1970. */
export interface TaskFilter {
  readonly state?: TaskState | undefined;
  readonly type?: string | undefined;
  /** Name of the user, as it was. */
  readonly submittedBy?: string | undefined;
  /** URI of the object. */
  readonly target?: string | undefined;
  /** Of a load. */
  readonly label?: string | undefined;
  readonly submittedFrom?: number | undefined;
  readonly submittedBefore?: number | undefined;
}

export function conditionsOf(sought: TaskFilter): RawBuilder<boolean>[] {
  const { state, type, submittedBy, target, label, submittedFrom, submittedBefore } = sought;
  return [
    state !== undefined && sql<boolean>`state = ${state}`,
    type !== undefined && sql<boolean>`type = ${type}`,
    submittedBy !== undefined && sql<boolean>`submitted_by = ${submittedBy}`,
    target !== undefined && sql<boolean>`target = ${target}`,
    label !== undefined && sql<boolean>`json_extract(request, '$.label') = ${label}`,
    submittedFrom !== undefined && sql<boolean>`submitted_at >= ${submittedFrom}`,
    submittedBefore !== undefined && sql<boolean>`submitted_at < ${submittedBefore}`,
  ].filter((condition) => condition !== false);
}
