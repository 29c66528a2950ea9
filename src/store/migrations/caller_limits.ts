// What servers on a shared store know together of the limits of callers. A single server keeps it in memory.
import type { Migration } from './migration.ts';

export const callerLimitsMigration: Migration = {
  name: 'limits of callers of several servers',
  async up(db, types) {
    await db.schema
      .createTable('failed_logins')
      .addColumn('key', types.name, (c) => c.notNull().primaryKey())
      .addColumn('state', 'text', (c) => c.notNull())
      .addColumn('expires_at', types.integer, (c) => c.notNull())
      .execute();
    await db.schema.createIndex('failed_logins_expiry').on('failed_logins').column('expires_at').execute();
    await db.schema
      .createTable('rate_charges')
      .addColumn('key', types.name, (c) => c.notNull().primaryKey())
      .addColumn('full_at', types.double, (c) => c.notNull())
      .execute();
    await db.schema
      .createTable('running_queries')
      .addColumn('server_id', types.name, (c) => c.notNull())
      .addColumn('principal_id', types.name, (c) => c.notNull())
      .addColumn('running', types.integer, (c) => c.notNull())
      .addColumn('counts_until', types.integer, (c) => c.notNull())
      .addPrimaryKeyConstraint('running_queries_key', ['server_id', 'principal_id'])
      .execute();
  },
};
