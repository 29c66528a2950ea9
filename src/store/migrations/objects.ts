// Objects: those that are dropped or blocked, their earlier contents, and what views read.
import { sql } from 'kysely';
import type { Migration } from './migration.ts';

/** The direct sources of views, by id. */
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

/** Dropped objects that can be restored for a while. */
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

/** Blocked changes: how often the engine ended during the step of one, and why its object is blocked. */
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

/** Earlier contents of objects. */
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

/** The process that works on an intent, and the end of its lease. Intents from before the migration have no holder. */
export const intentLeasesMigration: Migration = {
  name: 'leases of intents',
  async up(db, types) {
    await db.schema.alterTable('intents').addColumn('leased_by', types.name).execute();
    await db.schema.alterTable('intents').addColumn('lease_until', types.integer).execute();
  },
};
