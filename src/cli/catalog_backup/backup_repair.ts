// The repair `backup`: restores a damaged catalog to its state in the newest usable backup, of the whole server or of the catalog
// alone. A backup is fetched and read completely before anything is replaced; if it is damaged, that is reported and the previous
// one is tried.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import { listRecordedTargets } from '../../backups/recorded_targets.ts';
import { Failure } from '../../standard/failure.ts';
import { expectedTables } from '../../store/expected_tables.ts';
import { rewindCatalog, subtreeIds } from '../../store/rewound_catalog.ts';
import type { Store } from '../../store/store.ts';
import type { CatalogName, CatalogsToCheck } from '../check/catalog_checks.ts';
import { attempt, candidatesIn, type FoundBackup, openTargets } from './backup_candidates.ts';
import { fromParquetBackup } from './parquet_backup.ts';
import { fromServerBackup } from './server_backup.ts';

const linesShownMax = 20;
/** Below the data directory, so that files are moved instead of copied. Emptied at each start of the server. */
const stagingName = 'staging';

/** Known before the search for a backup. */
export async function backupLoses(store: Store, { id }: CatalogName, backupPlace: string): Promise<string | undefined> {
  const targets = backupPlace === '' ? await listRecordedTargets(store, id) : [backupPlace];
  if (targets.length === 0) return undefined;
  return 'puts the catalog back to its state in the newest backup that can be used, of the server or of the catalog, and loses what was written after that';
}

/**
 * Replaces the files of the catalog and its description in the store. @returns the paths of the files with the originals; undefined
 * if no backup can be used, which has been reported.
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
    say(
      `  no backup with the catalog ${JSON.stringify(catalog.name)} can be used; use --backup-place to name another target`,
    );
    return undefined;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function foundBackup(
  work: CatalogsToCheck,
  catalog: CatalogName,
  directory: string,
): Promise<FoundBackup | undefined> {
  const { say } = work;
  const targets = await openTargets(work, catalog);
  try {
    for (const candidate of await candidatesIn(targets, work)) {
      const { kind, backupId, where } = candidate;
      const fetch = kind === 'server' ? fromServerBackup : fromParquetBackup;
      const found = await attempt(() => fetch(work, catalog, candidate, join(directory, backupId)));
      if (found instanceof Failure) say(`  backup ${backupId} in ${where} cannot be used: ${found.message}`);
      else if (found) return found;
    }
    return undefined;
  } finally {
    for (const { target } of targets) target.close();
  }
}

async function putBack(
  work: CatalogsToCheck,
  catalog: CatalogName,
  faults: readonly string[],
  { kind, backupId, takenAt, directory, older, identity, omitted }: FoundBackup,
): Promise<readonly string[]> {
  const { store, dataDirectory, checks, suffix, audit, say } = work;
  const named = `backup ${backupId}${kind === 'server' ? '' : ' of the catalog alone'}`;
  say(`  it is restored to its state of ${takenAt}, from ${named}; losses:`);
  const tables = await tablesLost(work, catalog, directory, older);
  const lost = [...tables, ...omitted, ...(await workLost(store, catalog, takenAt))];
  for (const line of lost.length === 0 ? ['nothing that is recorded'] : lost) say(`    ${line}`);
  const originals = await checks.setFilesAside(dataDirectory, catalog, suffix);
  const { id } = catalog;
  const { checkpoint, logBytes } = await checks.moveFiles({ dataDirectory: directory, id }, { dataDirectory, id });
  const details = { repair: 'backup', backupId, takenAt, faults: faults.slice(0, linesShownMax), lost };
  const target = `/api/v2/catalogs/${encodeURIComponent(catalog.name)}`;
  await audit.write({ action: 'catalogs.repair', target, objectId: catalog.id, details }, async (tx) => {
    await rewindCatalog(tx, older.db, catalog.id, Date.parse(takenAt));
    await tx.deleteFrom('catalog_files').where('catalog_id', '=', catalog.id).execute();
    // If the backup recorded no identity, the first attachment records it.
    if (identity === undefined) return;
    const position = { catalog_id: catalog.id, identity, checkpoint, log_bytes: logBytes };
    await tx.insertInto('catalog_files').values(position).execute();
  });
  return originals;
}

/** From the last recorded statistics of the tables. */
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
      lines.push(`table ${JSON.stringify(table)}: deleted or renamed since, it is restored with ${rows} rows`);
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

/** The audit events of the catalog after the backup, by kind. */
async function workLost({ db }: Store, { id, name }: CatalogName, takenAt: string): Promise<string[]> {
  const subtree = new Set(await subtreeIds(db, id));
  const named = `"${JSON.stringify(name).slice(1, -1)}.`;
  const { rows } = await sql<{ at: number; action: string; object_id: string | null; details: string | null }>`
    select at, action, object_id, details from audit_events
    where at > ${Date.parse(takenAt)} and outcome in ('0', 'begun') order by at`.execute(db);
  const kinds = new Map<string, { count: number; last: number }>();
  for (const { at, action, object_id, details } of rows) {
    if (!subtree.has(object_id ?? '') && !details?.includes(named)) continue;
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
