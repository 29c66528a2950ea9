// Dropped objects that can be restored for a while.
import type { Migration } from './migration.ts';

export const droppedObjectsMigration: Migration = {
  name: 'dropped objects',
  async up(db, types) {
    await db.schema
      .createTable('dropped_objects')
      .addColumn('object_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
      .addColumn('warehouse', types.name, (c) => c.notNull())
      .addColumn('dropped_at', types.integer, (c) => c.notNull())
      .addColumn('dropped_by', types.name, (c) => c.notNull())
      .addColumn('purge_at', types.integer, (c) => c.notNull())
      .addColumn('purge', 'text', (c) => c.notNull())
      .execute();
    await db.schema.createIndex('dropped_objects_time').on('dropped_objects').column('purge_at').execute();
  },
};
