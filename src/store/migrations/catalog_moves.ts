// Moves of catalogs to other warehouses: how far each is, the earlier ids of catalogs that were moved, and what the server that moves one asks
// of those that write to it.
import { sql } from 'kysely';
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

export const moveReportsMigration: Migration = {
  name: 'moves from warehouses that several servers write to',
  servers: 'expand',
  async up(db, types) {
    const moves = () => db.schema.alterTable('catalog_moves');
    await moves()
      .addColumn('asks', types.integer, (c) => c.notNull().defaultTo(0))
      .execute();
    await moves().addColumn('asked_by', types.name).execute();
    await moves()
      .addColumn('is_held', types.integer, (c) => c.notNull().defaultTo(0))
      .execute();
    await db.schema
      .createTable('move_reports')
      .addColumn('task_id', types.name, (c) => c.notNull())
      .addColumn('server_id', types.name, (c) => c.notNull())
      .addColumn('asks', types.integer, (c) => c.notNull())
      .addColumn('report', 'text', (c) => c.notNull())
      .addPrimaryKeyConstraint('move_reports_key', ['task_id', 'server_id'])
      .execute();
  },
};

/**
 * The copy that a move left behind has the name of its catalog until the move has hidden it. Earlier releases did not record that: copies whose
 * moves have ended well keep no catalog of their warehouse from the name. Servers of the version before do not read it.
 */
export const hiddenCopiesMigration: Migration = {
  name: 'names of copies that moves have hidden',
  servers: 'expand',
  async up(db) {
    const unsure = db
      .selectFrom('catalog_moves')
      .innerJoin('tasks', 'tasks.task_id', 'catalog_moves.task_id')
      .select('catalog_moves.catalog_id')
      .where('tasks.state', '!=', 'succeeded');
    await db
      .updateTable('objects')
      .set({ name: sql<string>`'left_' || id` })
      .where('category', '=', 'catalog_copies')
      .where('id', 'not in', unsure)
      .execute();
  },
};
