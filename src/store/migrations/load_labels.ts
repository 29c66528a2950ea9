// Labels of successful loads, by which a repeated load is recognized as long as its table exists.
import type { Migration } from './migration.ts';

export const loadLabelsMigration: Migration = {
  name: 'labels of loads',
  async up(db, types) {
    await db.schema
      .createTable('load_labels')
      .addColumn('table_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
      .addColumn('label', types.name, (c) => c.notNull())
      .addColumn('task_id', types.name, (c) => c.notNull())
      .addColumn('result', 'text', (c) => c.notNull())
      .addColumn('created_at', types.integer, (c) => c.notNull())
      .addPrimaryKeyConstraint('load_labels_key', ['table_id', 'label'])
      .execute();
  },
};
