// Blocked changes: how often the engine ended during the step of one, and why its object is blocked.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

export const blockedObjectsMigration: Migration = {
  name: 'blocked objects',
  async up(db, types) {
    await db.schema
      .alterTable('intents')
      .addColumn('engine_deaths', types.integer, (c) => c.notNull().defaultTo(0))
      .execute();
    await db.schema.alterTable('objects').addColumn('state_reason', 'text').execute();
    await db.schema.dropIndex('objects_visible').execute();
    await db.schema
      .createIndex('objects_visible')
      .on('objects')
      .columns(['parent_id', 'category', 'name'])
      .where(sql<boolean>`state in ('ready', 'altering', 'blocked')`)
      .execute();
  },
};
