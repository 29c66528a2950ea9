// Idempotency keys (rest-standard B6).
import type { Migration } from './migration.ts';

/** Idempotency keys, by which a repeated request is recognized (rest-standard B6). */
export const idempotencyMigration: Migration = {
  name: 'idempotency keys',
  async up(db, types) {
    await db.schema
      .createTable('idempotency_keys')
      .addColumn('owner', types.name, (c) => c.notNull())
      .addColumn('key', types.name, (c) => c.notNull())
      .addColumn('key_id', types.name, (c) => c.notNull())
      .addColumn('fingerprint', types.name, (c) => c.notNull())
      .addColumn('state', types.name, (c) => c.notNull())
      .addColumn('object_id', types.name)
      .addColumn('status', types.integer)
      .addColumn('location', 'text')
      .addColumn('body', 'text')
      .addColumn('created_at', types.integer, (c) => c.notNull())
      .addPrimaryKeyConstraint('idempotency_keys_key', ['owner', 'key'])
      .execute();
    await db.schema.alterTable('spent_steps').addColumn('not_before', types.integer).execute();
    await db.schema.createIndex('idempotency_keys_time').on('idempotency_keys').column('created_at').execute();
  },
};

/** Adds to idempotency keys the attempt that holds the key, and what the first attempt was authorized for. */
export const keyAttemptsMigration: Migration = {
  name: 'attempts of keyed requests',
  async up(db, types) {
    await db.schema.alterTable('idempotency_keys').addColumn('attempt', types.name).execute();
    await db.schema.alterTable('idempotency_keys').addColumn('granted', 'text').execute();
  },
};

/** Adds to idempotency keys the entity tag of the response. */
export const keyTagsMigration: Migration = {
  name: 'entity tags of keyed answers',
  async up(db, types) {
    await db.schema.alterTable('idempotency_keys').addColumn('etag', types.name).execute();
  },
};

/** Adds to idempotency keys the process that runs the attempt, and the end of its lease. */
export const keyLeasesMigration: Migration = {
  name: 'leases of keyed requests',
  async up(db, types) {
    await db.schema.alterTable('idempotency_keys').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('idempotency_keys').addColumn('lease_until', types.integer).execute();
  },
};
