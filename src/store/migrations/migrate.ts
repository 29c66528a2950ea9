// Migrations of the metadata store: numbered steps, forward only. A released step is never edited; a change is a new step. They use the
// schema builder, which works for every dialect; `ColumnTypes` has the differences between dialects.

import { type Kysely, sql } from 'kysely';
import { OperatorError } from '../../operator/operator_error.ts';
import type { Schema } from '../schema.ts';
import { accessMigration, tokenSignInMigration } from './access.ts';
import { callerLimitsMigration } from './caller_limits.ts';
import { catalogMovesMigration, hiddenCopiesMigration, moveReportsMigration } from './catalog_moves.ts';
import { changesMigration } from './changes.ts';
import {
  catalogFilesMigration,
  fileStoreMigration,
  filesMigration,
  loadLabelsMigration,
  resultBytesMigration,
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
import { runningStatementsMigration, serversMigration } from './servers.ts';
import {
  scheduleLeasesMigration,
  schedulesMigration,
  taskFilesMigration,
  taskLeasesMigration,
  taskLineMigration,
  taskNoticesMigration,
  unfinishedTasksMigration,
  webhooksOfOwnersMigration,
} from './tasks.ts';

/** The position in this list is the version. */
export const migrations: readonly Migration[] = [
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
  runningStatementsMigration,
  moveReportsMigration,
  resultBytesMigration,
  webhooksOfOwnersMigration,
  hiddenCopiesMigration,
];
export const schemaVersion = migrations.length;

/** Thrown if a later release wrote the store. */
export class StoreTooNew extends OperatorError {
  override readonly name: string = 'StoreTooNew';
}

interface Versions {
  schema_versions: { version: number; name: string; applied_at: number };
  /** One row. Absent: the store was written by a release that did not know ranges, and only servers of its version can use it. */
  schema_range: { oldest_server: number };
}

/** The lowest version whose servers can use a store with these migrations. */
export function oldestServerOf(all: readonly Migration[]): number {
  return all.reduce((oldest, { servers }, index) => (servers === 'expand' ? oldest : (servers ?? index + 1)), 0);
}

/**
 * Migrates the tables to the version of `all` in one transaction, so that a store never has a version in between. A store of a later
 * version that servers of this one can use is left as it is. Throws StoreTooNew.
 */
export async function migrate(
  db: Kysely<Schema>,
  types: ColumnTypes,
  all: readonly Migration[] = migrations,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    const versions = tx as unknown as Kysely<Versions>;
    await createVersions(versions, types);
    const { version } = await versions
      .selectFrom('schema_versions')
      .select((e) => e.fn.coalesce(e.fn.max('version'), sql<number>`0`).as('version'))
      .executeTakeFirstOrThrow();
    if (version > all.length) return requireRange(versions, version, all.length);
    for (const [index, migration] of all.entries()) {
      if (index < version) continue;
      await migration.up(tx, types);
      const row = { version: index + 1, name: migration.name, applied_at: Date.now() };
      await versions.insertInto('schema_versions').values(row).execute();
    }
    if (version === all.length) return;
    await versions.deleteFrom('schema_range').execute();
    await versions
      .insertInto('schema_range')
      .values({ oldest_server: oldestServerOf(all) })
      .execute();
  });
}

async function createVersions(versions: Kysely<Versions>, types: ColumnTypes): Promise<void> {
  await versions.schema
    .createTable('schema_versions')
    .ifNotExists()
    .addColumn('version', types.integer, (c) => c.notNull().primaryKey())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('applied_at', types.integer, (c) => c.notNull())
    .execute();
  await versions.schema
    .createTable('schema_range')
    .ifNotExists()
    .addColumn('oldest_server', types.integer, (c) => c.notNull())
    .execute();
}

async function requireRange(versions: Kysely<Versions>, version: number, known: number): Promise<void> {
  const range = await versions.selectFrom('schema_range').select('oldest_server').executeTakeFirst();
  const oldest = range?.oldest_server ?? version;
  if (oldest <= known) return;
  throw new StoreTooNew(tooNewText(version, oldest, known));
}

/** `oldest`: of the servers that can use the store; `known`: by this release. */
export const tooNewText = (version: number, oldest: number, known: number): string =>
  `the store has version ${version}, which servers from version ${oldest} can use, and this release has version ${known}: ` +
  'start the release that wrote it, or a later one';
