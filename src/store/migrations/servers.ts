// The servers of a shared store, and which of them a task or a file belongs to.
import { runsOnServer } from '../index_conditions.ts';
import type { Migration } from './migration.ts';

export const serversMigration: Migration = {
  name: 'servers',
  async up(db, types) {
    await db.schema
      .createTable('servers')
      .addColumn('id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('url', 'text', (c) => c.notNull())
      .addColumn('release', types.name, (c) => c.notNull())
      .addColumn('started_at', types.integer, (c) => c.notNull())
      .addColumn('lease_until', types.integer, (c) => c.notNull())
      .addColumn('report', 'text', (c) => c.notNull())
      .execute();
    await db.schema.alterTable('tasks').addColumn('server_id', types.name).execute();
    await db.schema.alterTable('files').addColumn('server_id', types.name).execute();
  },
};

/** Running statements, which have the id of their server. */
export const runningStatementsMigration: Migration = {
  name: 'running statements of servers',
  servers: 'expand',
  async up(db, types) {
    await db.schema.alterTable('queries').addColumn('server_id', types.name).execute();
    await db.schema.createIndex('queries_server').on('queries').column('server_id').where(runsOnServer).execute();
  },
};
