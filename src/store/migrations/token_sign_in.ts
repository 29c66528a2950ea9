// Adds to tokens the identity provider by which their user signed in.
import type { Migration } from './migration.ts';

export const tokenSignInMigration: Migration = {
  name: 'sign-in of tokens',
  async up(db) {
    await db.schema.alterTable('tokens').addColumn('sign_in', 'text').execute();
    await db.schema.createIndex('tokens_expiry').on('tokens').column('expires_at').execute();
  },
};
