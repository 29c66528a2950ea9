// Adds the recorded position of each catalog's file, so that a file that is missing or older than acknowledged work is detected.
import type { Migration } from './migration.ts';

export const catalogFilesMigration: Migration = {
  name: 'positions of the files of catalogs',
  async up(db, types) {
    await db.schema
      .createTable('catalog_files')
      .addColumn('catalog_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
      .addColumn('identity', types.name, (c) => c.notNull())
      .addColumn('checkpoint', types.integer, (c) => c.notNull())
      .addColumn('log_bytes', types.integer, (c) => c.notNull())
      .execute();
  },
};
