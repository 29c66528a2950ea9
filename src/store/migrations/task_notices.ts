// Webhooks that are called when tasks end, and when the next call is due.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** The same literal in the index and the queries: otherwise the partial index is not used. */
export const hasPendingNotification = sql<boolean>`notify_at is not null`;

export const taskNoticesMigration: Migration = {
  name: 'notices of the ends of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('notify', 'text').execute();
    await db.schema.alterTable('tasks').addColumn('notify_at', types.integer).execute();
    await db.schema.createIndex('tasks_notify').on('tasks').column('notify_at').where(hasPendingNotification).execute();
  },
};
