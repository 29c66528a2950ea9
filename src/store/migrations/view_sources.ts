// The direct sources of views, by id.
import type { Migration } from './migration.ts';

export const viewSourcesMigration: Migration = {
  name: 'sources of views',
  async up(db, types) {
    await db.schema
      .createTable('view_sources')
      .addColumn('view_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
      .addColumn('source_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
      .addColumn('uses', types.integer, (c) => c.notNull())
      .addPrimaryKeyConstraint('view_sources_key', ['view_id', 'source_id'])
      .execute();
    await db.schema.createIndex('view_sources_source').on('view_sources').column('source_id').execute();
  },
};
