// Adds to idempotency keys the attempt that holds the key, and what the first attempt was authorized for.
import type { Migration } from './migration.ts';

export const keyAttemptsMigration: Migration = {
  name: 'attempts of keyed requests',
  async up(db, types) {
    await db.schema.alterTable('idempotency_keys').addColumn('attempt', types.name).execute();
    await db.schema.alterTable('idempotency_keys').addColumn('granted', 'text').execute();
  },
};
