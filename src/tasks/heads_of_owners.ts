// The first task of each owner, of those that meet a condition: so the tasks of one owner, however many, do not hide those of the others.
import { type Kysely, type RawBuilder, type SelectQueryBuilder, sql } from 'kysely';
import type { Schema } from '../store/schema.ts';

type TaskQuery = SelectQueryBuilder<Schema, 'tasks', object>;

/**
 * `condition`: that of a partial index that begins with the owner, in which the owners are found one after the other. `narrow`: restricts
 * and orders the tasks of one owner.
 */
export function headsOfOwners(
  db: Kysely<Schema>,
  condition: RawBuilder<boolean>,
  narrow: (tasks: TaskQuery) => TaskQuery,
) {
  const first = sql`select min(tasks.owner) from tasks where ${condition}`;
  const next = sql`select (${first} and tasks.owner > found.owner) from found where found.owner is not null`;
  const owners = sql<{
    owner: string;
  }>`(with recursive found(owner) as (${first} union all ${next}) select owner from found)`;
  const head = narrow(db.selectFrom('tasks').where(condition).where(sql<boolean>`tasks.owner = owners.owner`));
  return db
    .selectFrom(owners.as('owners'))
    .innerJoin('tasks', (join) => join.on('tasks.task_id', '=', head.select('tasks.task_id').limit(1)))
    .selectAll('tasks');
}
