// The repairs of a damaged catalog of a stopped server: what each loses, and how it is done. See check_catalogs.ts for the
// detection. The changes of the store by a repair and its audit event are one transaction.
import { basename } from 'node:path';
import type { Settings } from '../../settings/read_settings.ts';
import { expectedTables } from '../../store/expected_tables.ts';
import type { Store } from '../../store/store.ts';
import { backupLoses, restoreFromBackup } from '../catalog_backup/backup_repair.ts';
import type { CatalogName, CatalogsToCheck, LogCut } from './catalog_checks.ts';
import type { RepairLine } from './repair_audit.ts';

type RepairName = Exclude<Settings['repair'], 'none'>;

interface RepairRun extends CatalogsToCheck {
  readonly catalog: CatalogName;
  readonly cut: LogCut | undefined;
  readonly faults: readonly string[];
}

/** @returns the paths of the files with the originals; undefined if the repair is not possible, which has been reported. */
type Repair = (run: RepairRun, line: RepairLine) => Promise<readonly string[] | undefined>;

/** Reports what the repairs lose, and carries out the chosen one. @returns whether the catalog is repaired. */
export async function repaired(
  work: CatalogsToCheck,
  catalog: CatalogName,
  faults: readonly string[],
): Promise<boolean> {
  const { store, dataDirectory, repair, say, checks, suffix, audit, settings } = work;
  const cut = await checks.damagedLog(dataDirectory, catalog);
  const losses: Readonly<Record<RepairName, string | undefined>> = {
    accept:
      'loses nothing more: the file is attached as it is, if possible; damaged or missing data in it stays damaged or missing',
    wal: cut && `loses the last ${cut.lostBytes} bytes of its write-ahead log, which follow byte ${cut.keptBytes}`,
    backup: await backupLoses(store, catalog, settings.backupPlace),
    detach: await detachLoses(store, catalog),
  };
  const loss = repair === 'none' ? undefined : losses[repair];
  if (repair === 'none' || loss === undefined) {
    if (repair === 'backup')
      say('  no target with a backup of the server or of this catalog is recorded; use --backup-place to name one');
    else if (repair !== 'none') say(`  --repair=${repair} does not help here`);
    for (const [name, text] of Object.entries(losses)) if (text !== undefined) say(`  --repair=${name} ${text}`);
    say(
      '  POST /api/v2/catalogs/restore creates it again from a backup of it, under another name, once the server runs',
    );
    return false;
  }
  say(`  --repair=${repair} ${loss}`);
  await audit.ready();
  const target = `/api/v2/catalogs/${encodeURIComponent(catalog.name)}`;
  const details = { repair, faults: faults.slice(0, faultsInLineMax), loses: loss };
  const line: RepairLine = { action: 'catalogs.repair', target, objectId: catalog.id, details };
  const originals = await repairs[repair]({ ...work, catalog, cut, faults }, line);
  if (originals === undefined) return false;
  for (const path of originals) say(`  the original is ${basename(path)}`);
  say(`repaired catalog ${JSON.stringify(catalog.name)}${originals.length === 0 ? '' : ` (${suffix.slice(1)})`}`);
  return true;
}

/** Details for the audit event. */
const faultsInLineMax = 20;

const repairs: Readonly<Record<RepairName, Repair>> = {
  async accept({ audit, catalog: { id } }, line) {
    // The file is no longer required to contain all acknowledged work.
    await audit.write(line, (tx) => tx.deleteFrom('catalog_files').where('catalog_id', '=', id).execute());
    return [];
  },
  async wal({ audit, dataDirectory, checks, suffix, catalog, cut }, line) {
    if (!cut) return [];
    const originals = await checks.cutLog(dataDirectory, catalog, cut, suffix);
    const position = { log_bytes: cut.keptBytes };
    await audit.write(line, (tx) =>
      tx.updateTable('catalog_files').set(position).where('catalog_id', '=', catalog.id).execute(),
    );
    return originals;
  },
  backup: (run) => restoreFromBackup(run, run.catalog, run.faults),
  async detach({ audit, dataDirectory, checks, suffix, catalog }, line) {
    const originals = await checks.setFilesAside(dataDirectory, catalog, suffix);
    // Also deletes its contents, its grants and its open changes.
    await audit.write(line, (tx) => tx.deleteFrom('objects').where('id', '=', catalog.id).execute());
    return originals;
  },
};

async function detachLoses(store: Store, { id }: CatalogName): Promise<string> {
  const tables = await expectedTables(store, id);
  const databases = await store.db.selectFrom('objects').select('id').where('parent_id', '=', id).execute();
  const counts = `${databases.length} databases with ${tables.length} tables`;
  return `detaches the catalog from the server, with ${counts} and the grants on them; its files are retained`;
}
