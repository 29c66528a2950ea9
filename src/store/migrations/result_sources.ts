// The tables and views that a stored result was read from (query/results/result_access.ts).
import type { Migration } from './migration.ts';

export const resultSourcesMigration: Migration = {
  name: 'sources of stored results',
  async up(db, types) {
    await db.schema
      .createTable('result_sources')
      .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('sources', 'text', (c) => c.notNull())
      .execute();
  },
};
