// The line of tasks: in which order those begin that could, and which wait for others to end.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** Written out in indexes and queries alike: only so are the partial indexes used. */
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
    // What waits already goes first, in the order of its submission.
    await db.updateTable('tasks').set({ place: 0 }).where('state', '=', 'pending').execute();
    // It would be taken in the place of the partial ones, which hold a few rows where it holds them all.
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
