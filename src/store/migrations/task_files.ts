// Links result files to their task, and adds the plans of slow statements.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

export const taskFilesMigration: Migration = {
  name: 'files of tasks, plans of queries',
  async up(db, types) {
    await db.schema.alterTable('files').addColumn('task_id', types.name).execute();
    await db.schema
      .createIndex('files_task')
      .on('files')
      .column('task_id')
      .where(sql<boolean>`task_id is not null`)
      .execute();
    await db.schema.alterTable('queries').addColumn('plan', 'text').execute();
  },
};
