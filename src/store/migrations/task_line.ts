// The task queue: the order in which tasks begin, and which tasks wait for others.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** The same literals in the indexes and the queries: otherwise the partial indexes are not used. */
export const isQueued = sql<boolean>`place is not null`;
export const isPaused = sql<boolean>`place is null and state = 'pending' and waits_for = 0`;
export const isRunning = sql<boolean>`state in ('running', 'cancelling')`;

export const taskLineMigration: Migration = {
  name: 'priorities, dependencies and the line of tasks',
  async up(db, types) {
    const alter = () => db.schema.alterTable('tasks');
    await alter()
      .addColumn('priority', types.integer, (c) => c.notNull().defaultTo(1))
      .execute();
    await alter().addColumn('place', types.integer).execute();
    await alter()
      .addColumn('waits_for', types.integer, (c) => c.notNull().defaultTo(0))
      .execute();
    await alter().addColumn('after_ids', 'text').execute();
    await alter().addColumn('expected_end_at', types.integer).execute();
    // Tasks that are already pending come first, in the order of their submission.
    await db.updateTable('tasks').set({ place: 0 }).where('state', '=', 'pending').execute();
    // The planner would prefer it to the partial indexes, which contain few rows while it contains all.
    await db.schema.dropIndex('tasks_state').execute();
    const index = (name: string) => db.schema.createIndex(name).on('tasks');
    await index('tasks_line').columns(['priority', 'place', 'task_id']).where(isQueued).execute();
    await index('tasks_line_owner').columns(['owner', 'priority', 'place']).where(isQueued).execute();
    await index('tasks_line_age').columns(['task_id']).where(isQueued).execute();
    await index('tasks_under_way').columns(['task_id']).where(isRunning).execute();
    await index('tasks_paused').columns(['not_before']).where(isPaused).execute();
    await db.schema
      .createTable('task_waits')
      .addColumn('after_id', types.name, (c) => c.notNull())
      .addColumn('task_id', types.name, (c) => c.notNull().references('tasks.task_id').onDelete('cascade'))
      .addPrimaryKeyConstraint('task_waits_key', ['after_id', 'task_id'])
      .execute();
    await db.schema.createIndex('task_waits_task').on('task_waits').column('task_id').execute();
    await db.schema
      .createTable('task_ends')
      .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('state', types.name, (c) => c.notNull())
      .execute();
  },
};
