// Migrations of the metadata store: numbered steps, forward only. A released step is never edited; a change is a new step. They use the
// schema builder, which works for every dialect; `ColumnTypes` has the differences between dialects.

import { type Kysely, sql } from 'kysely';
import { OperatorError } from '../../operator/operator_error.ts';
import type { Schema } from '../schema.ts';
import { accessMigration, tokenSignInMigration } from './access.ts';
import { callerLimitsMigration } from './caller_limits.ts';
import { catalogMovesMigration } from './catalog_moves.ts';
import { changesMigration } from './changes.ts';
import {
  catalogFilesMigration,
  fileStoreMigration,
  filesMigration,
  loadLabelsMigration,
  resultSourcesMigration,
} from './files.ts';
import {
  idempotencyMigration,
  keyAttemptsMigration,
  keyLeasesMigration,
  keyTagsMigration,
} from './idempotency_keys.ts';
import { initialMigration } from './initial.ts';
import type { ColumnTypes, Migration } from './migration.ts';
import {
  blockedObjectsMigration,
  droppedObjectsMigration,
  intentLeasesMigration,
  objectVersionsMigration,
  viewSourcesMigration,
} from './objects.ts';
import { serversMigration } from './servers.ts';
import {
  scheduleLeasesMigration,
  schedulesMigration,
  taskFilesMigration,
  taskLeasesMigration,
  taskLineMigration,
  taskNoticesMigration,
  unfinishedTasksMigration,
} from './tasks.ts';

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
  changesMigration,
  intentLeasesMigration,
  keyLeasesMigration,
  scheduleLeasesMigration,
  callerLimitsMigration,
  serversMigration,
  fileStoreMigration,
  catalogMovesMigration,
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
