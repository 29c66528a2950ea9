// Migrations of the metadata store: numbered steps, forward only. A released step is never edited; a change is a new step. They use the
// schema builder, which works for every dialect; `ColumnTypes` has the differences between dialects.

import { type Kysely, sql } from 'kysely';
import { OperatorError } from '../../operator/operator_error.ts';
import type { Schema } from '../schema.ts';
import { accessMigration } from './access.ts';
import { blockedObjectsMigration } from './blocked_objects.ts';
import { catalogFilesMigration } from './catalog_files.ts';
import { droppedObjectsMigration } from './dropped_objects.ts';
import { filesMigration } from './files.ts';
import { idempotencyMigration } from './idempotency.ts';
import { keyAttemptsMigration } from './key_attempts.ts';
import { keyTagsMigration } from './key_tags.ts';
import { loadLabelsMigration } from './load_labels.ts';
import type { ColumnTypes, Migration } from './migration.ts';
import { objectVersionsMigration } from './object_versions.ts';
import { resultSourcesMigration } from './result_sources.ts';
import { schedulesMigration } from './schedules.ts';
import { taskFilesMigration } from './task_files.ts';
import { taskLeasesMigration } from './task_leases.ts';
import { taskLineMigration } from './task_line.ts';
import { taskNoticesMigration } from './task_notices.ts';
import { tokenSignInMigration } from './token_sign_in.ts';
import { unfinishedTasksMigration } from './unfinished_tasks.ts';
import { viewSourcesMigration } from './view_sources.ts';

export const sqliteColumnTypes: ColumnTypes = { name: 'text', integer: 'integer', double: 'real' };

/** Rows that readers see. A literal, not a bound parameter, in the index and the queries: otherwise the partial index is not used. */
export const visible = sql<boolean>`state in ('ready', 'altering', 'blocked')`;

const initialMigration: Migration = {
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

/** The position in this list is the version. */
const migrations: readonly Migration[] = [
  initialMigration,
  accessMigration,
  unfinishedTasksMigration,
  idempotencyMigration,
  taskLineMigration,
  schedulesMigration,
  loadLabelsMigration,
  taskNoticesMigration,
  filesMigration,
  droppedObjectsMigration,
  taskLeasesMigration,
  taskFilesMigration,
  viewSourcesMigration,
  resultSourcesMigration,
  catalogFilesMigration,
  keyAttemptsMigration,
  blockedObjectsMigration,
  keyTagsMigration,
  objectVersionsMigration,
  tokenSignInMigration,
];
export const schemaVersion = migrations.length;

/** Thrown if a later release wrote the store. */
export class StoreTooNew extends OperatorError {
  override readonly name: string = 'StoreTooNew';
}

interface Versions {
  schema_versions: { version: number; name: string; applied_at: number };
}

/** Migrates the tables to `schemaVersion` in one transaction, so that a store never has a version in between. Throws StoreTooNew. */
export async function migrate(db: Kysely<Schema>, types: ColumnTypes): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const versions = tx as unknown as Kysely<Versions>;
    await versions.schema
      .createTable('schema_versions')
      .ifNotExists()
      .addColumn('version', types.integer, (c) => c.notNull().primaryKey())
      .addColumn('name', 'text', (c) => c.notNull())
      .addColumn('applied_at', types.integer, (c) => c.notNull())
      .execute();
    const { version } = await versions
      .selectFrom('schema_versions')
      .select((e) => e.fn.coalesce(e.fn.max('version'), sql<number>`0`).as('version'))
      .executeTakeFirstOrThrow();
    if (version > schemaVersion) {
      throw new StoreTooNew(
        `the store has version ${version}, this release knows up to ${schemaVersion}: start the release that wrote it, or a later one`,
      );
    }
    for (const [index, migration] of migrations.entries()) {
      if (index < version) continue;
      await migration.up(tx, types);
      const row = { version: index + 1, name: migration.name, applied_at: Date.now() };
      await versions.insertInto('schema_versions').values(row).execute();
    }
  });
}
