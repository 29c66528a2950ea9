// The tables of the first release: objects, intents, tasks, queries and settings.
import { type Kysely, sql } from 'kysely';
import type { Schema } from '../schema.ts';
import type { ColumnTypes, Migration } from './migration.ts';

export const initialMigration: Migration = {
  name: 'objects, intents, tasks, queries',
  async up(db, types) {
    await createObjects(db, types);
    await createIntents(db, types);
    await createTasks(db, types);
    await createQueries(db, types);
    await db.schema
      .createTable('settings')
      .addColumn('key', types.name, (c) => c.notNull().primaryKey())
      .addColumn('value', 'text', (c) => c.notNull())
      .execute();
  },
};

async function createObjects(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('objects')
    .addColumn('id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('category', types.name, (c) => c.notNull())
    .addColumn('parent_id', types.name, (c) => c.references('objects.id').onDelete('cascade'))
    .addColumn('name', types.name, (c) => c.notNull())
    .addColumn('folded_name', types.name, (c) => c.notNull())
    .addColumn('state', types.name, (c) => c.notNull())
    .addColumn('owner', types.name, (c) => c.notNull())
    .addColumn('version', types.integer, (c) => c.notNull())
    .addColumn('created_at', types.integer, (c) => c.notNull())
    .addColumn('created_by', types.name, (c) => c.notNull())
    .addColumn('updated_at', types.integer, (c) => c.notNull())
    .addColumn('updated_by', types.name, (c) => c.notNull())
    .addColumn('folded_comment', 'text')
    .addColumn('spec', 'text', (c) => c.notNull())
    .execute();
  const index = (name: string) => db.schema.createIndex(name).on('objects');
  await index('objects_sibling').unique().columns(['parent_id', 'category', 'folded_name']).execute();
  // Nulls are distinct in a unique index, so the roots have an index of their own.
  await index('objects_root')
    .unique()
    .columns(['category', 'folded_name'])
    .where(sql<boolean>`parent_id is null`)
    .execute();
  const visibleThen = sql<boolean>`state in ('ready', 'altering')`;
  await index('objects_visible').columns(['parent_id', 'category', 'name']).where(visibleThen).execute();
  await db.schema
    .createTable('table_statistics')
    .addColumn('object_id', types.name, (c) => c.notNull().primaryKey().references('objects.id').onDelete('cascade'))
    .addColumn('row_count', types.integer, (c) => c.notNull())
    .addColumn('data_bytes', types.integer, (c) => c.notNull())
    .addColumn('as_of', types.integer, (c) => c.notNull())
    .execute();
}

async function createIntents(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('intents')
    .addColumn('id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('object_id', types.name, (c) => c.notNull().references('objects.id').onDelete('cascade'))
    .addColumn('verb', types.name, (c) => c.notNull())
    .addColumn('undoing', types.integer, (c) => c.notNull())
    .addColumn('warehouse', types.name, (c) => c.notNull())
    .addColumn('change', 'text', (c) => c.notNull())
    .addColumn('undo', 'text')
    .addColumn('next', 'text')
    .addColumn('task_id', types.name)
    .addColumn('principal', types.name, (c) => c.notNull())
    .addColumn('created_at', types.integer, (c) => c.notNull())
    .addColumn('attempts', types.integer, (c) => c.notNull())
    .addColumn('last_error', 'text')
    .execute();
  await db.schema.createIndex('intents_object').unique().on('intents').column('object_id').execute();
  await db.schema
    .createTable('spent_steps')
    .addColumn('step', types.name, (c) => c.notNull().primaryKey())
    .addColumn('warehouse', types.name, (c) => c.notNull())
    .addColumn('catalog_id', types.name, (c) => c.notNull())
    .addColumn('object_id', types.name, (c) => c.notNull())
    .addColumn('task_id', types.name)
    .execute();
}

async function createTasks(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('tasks')
    .addColumn('task_id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('type', types.name, (c) => c.notNull())
    .addColumn('state', types.name, (c) => c.notNull())
    .addColumn('progress', types.double)
    .addColumn('progress_text', 'text')
    .addColumn('submitted_by', types.name, (c) => c.notNull())
    .addColumn('submitted_at', types.integer, (c) => c.notNull())
    .addColumn('started_at', types.integer)
    .addColumn('ended_at', types.integer)
    .addColumn('attempt', types.integer, (c) => c.notNull())
    .addColumn('not_before', types.integer, (c) => c.notNull())
    .addColumn('target', 'text', (c) => c.notNull())
    .addColumn('request', 'text', (c) => c.notNull())
    .addColumn('result', 'text')
    .addColumn('error', 'text')
    .execute();
  await db.schema.createIndex('tasks_state').on('tasks').columns(['state', 'not_before', 'task_id']).execute();
}

async function createQueries(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.schema
    .createTable('queries')
    .addColumn('query_id', types.name, (c) => c.notNull().primaryKey())
    .addColumn('kind', types.name, (c) => c.notNull())
    .addColumn('state', types.name, (c) => c.notNull())
    .addColumn('warehouse', types.name, (c) => c.notNull())
    .addColumn('catalog', types.name, (c) => c.notNull())
    .addColumn('database', types.name)
    .addColumn('submitted_by', types.name, (c) => c.notNull())
    .addColumn('submitted_at', types.integer, (c) => c.notNull())
    .addColumn('started_at', types.integer)
    .addColumn('ended_at', types.integer)
    .addColumn('elapsed_ms', types.double)
    .addColumn('queued_ms', types.double)
    .addColumn('row_count', types.integer)
    .addColumn('result_bytes', types.integer)
    .addColumn('error_code', types.name)
    .addColumn('error_message', 'text')
    .addColumn('task_id', types.name)
    .addColumn('sql', 'text', (c) => c.notNull())
    .execute();
}
