// Moves of catalogs to other warehouses: how far each is, and the earlier ids of catalogs that were moved.
import type { Migration } from './migration.ts';

export const catalogMovesMigration: Migration = {
  name: 'moves of catalogs',
  servers: 'expand',
  async up(db, types) {
    await db.schema
      .createTable('catalog_moves')
      .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
      .addColumn('catalog_id', types.name, (c) => c.notNull())
      .addColumn('target_id', types.name, (c) => c.notNull())
      .addColumn('progress', 'text', (c) => c.notNull())
      .addColumn('switched_at', types.integer)
      .execute();
    await db.schema.createIndex('catalog_moves_catalog').on('catalog_moves').column('catalog_id').execute();
  },
};
