// Adds to idempotency keys the entity tag of the response.
import type { Migration } from './migration.ts';

export const keyTagsMigration: Migration = {
  name: 'entity tags of keyed answers',
  async up(db, types) {
    await db.schema.alterTable('idempotency_keys').addColumn('etag', types.name).execute();
  },
};
