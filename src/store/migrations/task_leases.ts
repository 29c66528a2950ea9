// Who runs a task, and until when that is known. What was under way before has no runner.
import type { Migration } from './migration.ts';

export const taskLeasesMigration: Migration = {
  name: 'leases of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('tasks').addColumn('lease_until', types.integer).execute();
  },
};
