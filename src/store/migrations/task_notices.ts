// Notices of the ends of tasks, and which of them are due.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** Written out in the index and in queries alike: only so is the partial index used. */
export const hasPendingNotification = sql<boolean>`notify_at is not null`;

export const taskNoticesMigration: Migration = {
  name: 'notices of the ends of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('notify', 'text').execute();
    await db.schema.alterTable('tasks').addColumn('notify_at', types.integer).execute();
    await db.schema.createIndex('tasks_notify').on('tasks').column('notify_at').where(hasPendingNotification).execute();
  },
};
