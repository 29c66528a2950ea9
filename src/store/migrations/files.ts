// Files that callers upload or download (files/file_store.ts). Their bytes are in the data directory.
import type { Migration } from './migration.ts';

export const filesMigration: Migration = {
  name: 'files',
  async up(db, types) {
    await db.schema
      .createTable('files')
      .addColumn('file_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('kind', types.name, (c) => c.notNull())
      .addColumn('owner', types.name, (c) => c.notNull())
      .addColumn('scopes', 'text')
      .addColumn('name', 'text', (c) => c.notNull())
      .addColumn('state', types.name, (c) => c.notNull())
      .addColumn('bytes', types.integer)
      .addColumn('received_bytes', types.integer, (c) => c.notNull())
      .addColumn('reserved_bytes', types.integer, (c) => c.notNull())
      .addColumn('sha256', types.name)
      .addColumn('created_at', types.integer, (c) => c.notNull())
      .addColumn('created_by', types.name, (c) => c.notNull())
      .addColumn('updated_at', types.integer, (c) => c.notNull())
      .addColumn('expires_at', types.integer, (c) => c.notNull())
      .execute();
    await db.schema.createIndex('files_owner').on('files').columns(['owner', 'kind', 'file_id']).execute();
    await db.schema.createIndex('files_expiry').on('files').column('expires_at').execute();
  },
};
