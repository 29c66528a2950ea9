// The run times of schedules, in a table of their own because they change with each run without changing the schedule.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** The same literal in the index and the queries: otherwise the partial index is not used. */
export const hasNextRun = sql<boolean>`next_at is not null`;

export const schedulesMigration: Migration = {
  name: 'times of schedules',
  async up(db, types) {
    await db.schema
      .createTable('schedule_times')
      .addColumn('object_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
      .addColumn('next_at', types.integer)
      .addColumn('computed_at', types.integer, (c) => c.notNull())
      .addColumn('last_at', types.integer)
      .addColumn('last_task_id', types.name)
      .addColumn('error', 'text')
      .execute();
    await db.schema
      .createIndex('schedule_times_next')
      .on('schedule_times')
      .column('next_at')
      .where(hasNextRun)
      .execute();
    await db.schema.createIndex('schedule_times_computed').on('schedule_times').column('computed_at').execute();
  },
};
