// The runner of a task and the end of its lease. Tasks that were running before the migration have no runner.
import type { Migration } from './migration.ts';

export const taskLeasesMigration: Migration = {
  name: 'leases of tasks',
  async up(db, types) {
    await db.schema.alterTable('tasks').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('tasks').addColumn('lease_until', types.integer).execute();
  },
};
