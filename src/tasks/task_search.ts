// Converts the filter of a task search to SQL conditions.
import { type RawBuilder, sql } from 'kysely';
import type { TaskState } from '../store/schema.ts';

/** Conditions are combined with AND. Times are in milliseconds since 1970. */
export interface TaskFilter {
  readonly state?: TaskState | undefined;
  readonly type?: string | undefined;
  /** The name of the user at the time of the submission. */
  readonly submittedBy?: string | undefined;
  /** URI of the object. */
  readonly target?: string | undefined;
  /** The label of a load. */
  readonly label?: string | undefined;
  readonly submittedFrom?: number | undefined;
  readonly submittedBefore?: number | undefined;
}

export function conditionsOf(filter: TaskFilter): RawBuilder<boolean>[] {
  const { state, type, submittedBy, target, label, submittedFrom, submittedBefore } = filter;
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
