// The repair `backup`: puts a damaged catalog back to its state in the newest backup of the server that can be used. The backup is
// fetched and read whole before anything is replaced; one that is damaged is reported, and the one before it is tried.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import { serverBackupNotes } from '../backups/server/server_backups.ts';
import { listServerBackups, loadServerManifest, type ServerManifest } from '../backups/server/server_manifest.ts';
import {
  fetchCatalog,
  hasCatalog,
  incompatibility,
  listRecordedTargets,
  openRecordedTarget,
  type RecordedTarget,
} from '../backups/server_catalog.ts';
import type { BackupTarget } from '../backups/targets/backup_target.ts';
import { TargetSecrets } from '../backups/targets/target_secrets.ts';
import { Failure } from '../standard/failure.ts';
import { expectedTables } from '../store/expected_tables.ts';
import { findRewindObstacle, rewindCatalog, subtreeIds } from '../store/rewound_catalog.ts';
import { openStore, type Store } from '../store/store.ts';
import { placeOf } from './backup_place.ts';
import type { CatalogName, CatalogsToCheck } from './check/catalog_checks.ts';
import { secretsOf } from './data_directory.ts';

const linesShownMax = 20;
/** Below the data directory, so that files are moved and not copied. Emptied by each start of the server. */
const stagingName = 'staging';

/** A backup of the catalog that was fetched and read, and found sound. */
interface FoundBackup {
  readonly manifest: ServerManifest;
  /** Laid out as a data directory. */
  readonly directory: string;
  readonly older: Store;
  readonly identity: string | undefined;
}

/** What is known before it is looked for. */
export async function backupLoses(store: Store, backupPlace: string): Promise<string | undefined> {
  const places = backupPlace === '' ? await listRecordedTargets(store) : [backupPlace];
  if (places.length === 0) return undefined;
  return 'puts the catalog back to its state in the newest backup of the server that can be used, and loses what was written after that';
}

/**
 * Replaces the files of the catalog and what the store describes of it.
 * @returns the paths of the files that hold the originals; undefined: no backup can be used, as was reported.
 */
export async function restoreFromBackup(
  work: CatalogsToCheck,
  catalog: CatalogName,
  faults: readonly string[],
): Promise<readonly string[] | undefined> {
  const { dataDirectory, say } = work;
  await mkdir(join(dataDirectory, stagingName), { recursive: true, mode: 0o700 });
  const directory = await mkdtemp(join(dataDirectory, stagingName, 'repair-'));
  try {
    const found = await foundBackup(work, catalog, directory);
    if (found) {
      try {
        return await putBack(work, catalog, faults, found);
      } finally {
        await found.older.close();
      }
    }
    say(`  no backup of the server with the catalog ${JSON.stringify(catalog.name)} can be used`);
    say('  --backup-place names another place of backups; backups of a catalog alone are restored by the server');
    return undefined;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Candidate {
  readonly place: BackupTarget;
  readonly where: string;
  readonly backupId: string;
}

async function foundBackup(
  work: CatalogsToCheck,
  catalog: CatalogName,
  directory: string,
): Promise<FoundBackup | undefined> {
  const { say, settings } = work;
  const places = await openPlaces(work);
  try {
    const candidates: Candidate[] = [];
    for (const { place, where } of places) {
      const listed = await attempt(() => listServerBackups(place));
      if (listed instanceof Failure) say(`  the backups in ${where} cannot be listed: ${listed.message}`);
      else candidates.push(...listed.whole.map((backupId) => ({ place, where, backupId })));
    }
    // Ids are by time.
    candidates.sort((a, b) => (a.backupId < b.backupId ? 1 : -1));
    for (const candidate of candidates) {
      const { backupId, where } = candidate;
      if (settings.backupId !== '' && backupId !== settings.backupId) continue;
      const found = await attempt(() => usable(work, catalog, candidate, join(directory, backupId)));
      if (found instanceof Failure) say(`  backup ${backupId} in ${where} cannot be used: ${found.message}`);
      else if (found) return found;
    }
    return undefined;
  } finally {
    for (const { place } of places) place.close();
  }
}

/** A Failure of the place or of the backup is returned, so that another can be tried. */
async function attempt<T>(work: () => Promise<T>): Promise<T | Failure> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Failure && error.code !== 'STORAGE_FULL') return error;
    throw error;
  }
}

async function openPlaces({ store, settings, dataDirectory, say }: CatalogsToCheck) {
  const { backupPlace } = settings;
  if (backupPlace !== '') return [{ place: await placeOf(backupPlace, settings), where: backupPlace }];
  const opened: { readonly place: BackupTarget; readonly where: string }[] = [];
  const notes = new TargetSecrets(store, await secretsOf(settings, store, dataDirectory), serverBackupNotes);
  for (const recorded of await listRecordedTargets(store)) {
    const where = placeText(recorded);
    const place = await attempt(() => openRecordedTarget(recorded, notes));
    if (place instanceof Failure) say(`  ${where} cannot be used: ${place.message}`);
    else opened.push({ place, where });
  }
  return opened;
}

const placeText = ({ to }: RecordedTarget) => (to.kind === 's3' ? `s3://${to.bucket}/${to.prefix}` : to.path);

/** Undefined: the backup is not one of this catalog. Throws a Failure where it cannot be used. */
async function usable(
  { store, checks }: CatalogsToCheck,
  catalog: CatalogName,
  { place, backupId }: Candidate,
  directory: string,
): Promise<FoundBackup | undefined> {
  const manifest = await loadServerManifest(place, backupId);
  const unusable = (why: string) => new Failure('DATA_INVALID', why);
  const left = manifest.catalogsLeftOut.find(({ name }) => name === catalog.name);
  if (left) throw unusable(`the catalog was damaged already when it was made (${left.reason})`);
  if (!hasCatalog(manifest, catalog.id)) return undefined;
  const fault = incompatibility(manifest);
  if (fault !== undefined) throw unusable(fault);
  try {
    const { signal } = new AbortController();
    const older = await openStore({ file: await fetchCatalog(place, manifest, catalog.id, directory, signal) });
    try {
      const recorded = await older.db
        .selectFrom('catalog_files')
        .select(['identity', 'checkpoint', 'log_bytes as logBytes'])
        .where('catalog_id', '=', catalog.id)
        .executeTakeFirst();
      const expected = await expectedTables(older, catalog.id);
      const { faults } = await checks.checkCatalog(directory, catalog, recorded, expected);
      const [first = await findRewindObstacle(store.db, older.db, catalog.id)] = faults;
      if (first !== undefined) throw unusable(first);
      return { manifest, directory, older, identity: recorded?.identity };
    } catch (error) {
      await older.close();
      throw error;
    }
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}

async function putBack(
  work: CatalogsToCheck,
  catalog: CatalogName,
  faults: readonly string[],
  { manifest, directory, older, identity }: FoundBackup,
): Promise<readonly string[]> {
  const { store, dataDirectory, checks, suffix, audit, say } = work;
  const { backupId, takenAt } = manifest;
  say(`  it is put back to its state of ${takenAt}, from backup ${backupId}; what is lost:`);
  const lost = [...(await tablesLost(work, catalog, directory, older)), ...(await workLost(store, catalog, takenAt))];
  for (const line of lost.length === 0 ? ['nothing that is recorded'] : lost) say(`    ${line}`);
  const originals = await checks.setFilesAside(dataDirectory, catalog, suffix);
  const { checkpoint, logBytes } = await checks.putFiles(directory, dataDirectory, catalog);
  const details = { repair: 'backup', backupId, takenAt, faults: faults.slice(0, linesShownMax), lost };
  const target = `/api/v2/catalogs/${encodeURIComponent(catalog.name)}`;
  await audit.write({ action: 'catalogs.repair', target, objectId: catalog.id, details }, async (tx) => {
    await rewindCatalog(tx, older.db, catalog.id, Date.parse(takenAt));
    await tx.deleteFrom('catalog_files').where('catalog_id', '=', catalog.id).execute();
    // Where the backup recorded no identity, the first attachment records it.
    if (identity === undefined) return;
    const position = { catalog_id: catalog.id, identity, checkpoint, log_bytes: logBytes };
    await tx.insertInto('catalog_files').values(position).execute();
  });
  return originals;
}

/** As the statistics of the tables were recorded last. */
async function tablesLost(
  { store, checks }: CatalogsToCheck,
  catalog: CatalogName,
  directory: string,
  older: Store,
): Promise<string[]> {
  const then = await checks.rowCounts(directory, catalog, await expectedTables(older, catalog.id));
  const now = await recordedRows(store, catalog);
  const lines: string[] = [];
  for (const [table, rows] of now) {
    const [shown, before] = [`table ${JSON.stringify(table)}`, then.get(table)];
    if (before === undefined)
      lines.push(`${shown}: all of it, made or renamed after the backup (${rows ?? 'unknown'} rows)`);
    else if (rows !== null && rows !== before)
      lines.push(`${shown}: it had ${rows} rows, and has ${before} in the backup`);
  }
  for (const [table, rows] of then)
    if (!now.has(table))
      lines.push(`table ${JSON.stringify(table)}: deleted or renamed since, it comes back with ${rows} rows`);
  return shortened(lines);
}

async function recordedRows({ db }: Store, { id }: CatalogName): Promise<Map<string, number | null>> {
  const rows = await db
    .selectFrom('objects as table')
    .innerJoin('objects as database', 'database.id', 'table.parent_id')
    .leftJoin('table_statistics', 'table_statistics.object_id', 'table.id')
    .select(['database.name as database', 'table.name as table', 'row_count'])
    .where('database.parent_id', '=', id)
    .where('table.category', '=', 'tables')
    .where('table.state', 'in', ['ready', 'altering', 'blocked'])
    .where('database.state', 'in', ['ready', 'altering', 'blocked'])
    .orderBy('database.name')
    .orderBy('table.name')
    .execute();
  return new Map(rows.map(({ database, table, row_count }) => [`${database}.${table}`, row_count]));
}

/** What the audit trail has of the catalog after the instant, by its kind. */
async function workLost({ db }: Store, { id, name }: CatalogName, takenAt: string): Promise<string[]> {
  const within = new Set(await subtreeIds(db, id));
  const named = `"${JSON.stringify(name).slice(1, -1)}.`;
  const { rows } = await sql<{ at: number; action: string; object_id: string | null; details: string | null }>`
    select at, action, object_id, details from audit_events
    where at > ${Date.parse(takenAt)} and outcome in ('0', 'begun') order by at`.execute(db);
  const kinds = new Map<string, { count: number; last: number }>();
  for (const { at, action, object_id, details } of rows) {
    if (!within.has(object_id ?? '') && !details?.includes(named)) continue;
    kinds.set(action, { count: (kinds.get(action)?.count ?? 0) + 1, last: at });
  }
  return shortened(
    [...kinds].map(([action, { count, last }]) => `${count} × ${action}, the last at ${new Date(last).toISOString()}`),
  );
}

const shortened = (lines: readonly string[]): string[] =>
  lines.length <= linesShownMax
    ? [...lines]
    : [...lines.slice(0, linesShownMax), `and ${lines.length - linesShownMax} more`];
