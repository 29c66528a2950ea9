// Earlier contents of objects.
import type { Migration } from './migration.ts';

export const objectVersionsMigration: Migration = {
  name: 'versions of objects',
  async up(db, types) {
    await db.schema
      .createTable('object_versions')
      .addColumn('object_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
      .addColumn('version', types.integer, (c) => c.notNull())
      .addColumn('saved_at', types.integer, (c) => c.notNull())
      .addColumn('saved_by', types.name, (c) => c.notNull())
      .addColumn('bytes', types.integer, (c) => c.notNull())
      .addColumn('content', 'text', (c) => c.notNull())
      .addPrimaryKeyConstraint('object_versions_key', ['object_id', 'version'])
      .execute();
    // Covers the sum of the bytes of many objects, which would otherwise read their contents.
    await db.schema
      .createIndex('object_versions_bytes')
      .on('object_versions')
      .columns(['object_id', 'bytes'])
      .execute();
  },
};
