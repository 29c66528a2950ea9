// The part of `check` that is about catalogs: each is compared with what the store says of it, and what a repair of it would lose is
// said before it is done.
import { basename } from 'node:path';
import type { ExpectedTable } from '../model/expected_table.ts';
import { type Settings, SettingsError } from '../settings.ts';
import { expectedTables } from '../store/expected_tables.ts';
import type { Store } from '../store/store.ts';

interface RecordedFile {
  readonly identity: string;
  readonly checkpoint: number;
  readonly logBytes: number;
}

interface CatalogName {
  readonly id: string;
  readonly name: string;
}

interface LogCut {
  readonly keptBytes: number;
  readonly lostBytes: number;
}

/** What the engine's adapter does with files of catalogs. */
export interface CatalogChecks {
  /** Reads all of a catalog's file. `faults` are sentences; none: it is sound. */
  readonly checkCatalog: (
    dataDirectory: string,
    catalog: CatalogName,
    recorded: RecordedFile | undefined,
    expected: readonly ExpectedTable[],
  ) => Promise<{ readonly faults: readonly string[]; readonly bytes: number | undefined }>;
  readonly damagedLog: (dataDirectory: string, catalog: CatalogName) => Promise<LogCut | undefined>;
  /** These two return the names of the files that have the originals. */
  readonly cutLog: (dataDirectory: string, catalog: CatalogName, cut: LogCut, suffix: string) => Promise<string[]>;
  readonly setFilesAside: (dataDirectory: string, catalog: CatalogName, suffix: string) => Promise<string[]>;
}

export interface CatalogsToCheck {
  readonly store: Store;
  readonly dataDirectory: string;
  /** Of the one catalog with this name; empty: all. */
  readonly only: string;
  readonly repair: Settings['repair'];
  readonly suffix: string;
  readonly say: (line: string) => void;
  readonly checks: CatalogChecks;
}

/** @returns how many are damaged and not repaired. */
export async function checkCatalogs(work: CatalogsToCheck): Promise<number> {
  const { store, only, say, dataDirectory, checks } = work;
  const rows = await store.db
    .selectFrom('objects')
    .select(['id', 'name'])
    .where('category', '=', 'catalogs')
    .where('state', 'in', ['ready', 'altering', 'blocked'])
    .orderBy('name')
    .execute();
  const catalogs = rows.filter(({ name }) => only === '' || name === only);
  if (only !== '' && catalogs.length === 0) throw new SettingsError(`there is no catalog ${JSON.stringify(only)}`);
  let damaged = 0;
  for (const catalog of catalogs) {
    const recorded = await recordedFile(store, catalog);
    const expected = await expectedTables(store, catalog.id);
    const { faults, bytes } = await checks.checkCatalog(dataDirectory, catalog, recorded, expected);
    const shown = JSON.stringify(catalog.name);
    // The first use of a catalog makes its file.
    const isUnused = recorded === undefined && bytes === undefined && (await databasesIn(store, catalog)) === 0;
    if (isUnused) say(`sound   catalog ${shown}: never used, without a file`);
    else if (faults.length === 0) say(`sound   catalog ${shown}: ${bytes} bytes`);
    else {
      say(`DAMAGED catalog ${shown}: ${faults.join('; ')}`);
      if (!(await repaired(work, catalog))) damaged++;
    }
  }
  return damaged;
}

/** Says what the repairs lose, and does the one that was chosen. */
async function repaired(work: CatalogsToCheck, catalog: CatalogName): Promise<boolean> {
  const { store, dataDirectory, repair, say, checks, suffix } = work;
  const cut = await checks.damagedLog(dataDirectory, catalog);
  const losses: Readonly<Record<Exclude<Settings['repair'], 'none'>, string | undefined>> = {
    accept:
      'loses nothing more: the file is attached as it is, if it can be; what is damaged or missing in it stays so',
    wal: cut && `loses the last ${cut.lostBytes} bytes of its write-ahead log, which follow byte ${cut.keptBytes}`,
    detach: await detachLoses(store, catalog),
  };
  const chosen = repair === 'none' ? undefined : losses[repair];
  if (repair === 'none' || chosen === undefined) {
    if (repair !== 'none') say(`  --repair=${repair} does not help here`);
    for (const [name, loss] of Object.entries(losses)) if (loss !== undefined) say(`  --repair=${name} ${loss}`);
    say('  POST /api/v2/catalogs/restore makes it anew from a backup, under another name, once the server runs');
    return false;
  }
  say(`  --repair=${repair} ${chosen}`);
  const originals = await repairs[repair](work, catalog, cut);
  for (const path of originals) say(`  the original is ${basename(path)}`);
  say(`repaired catalog ${JSON.stringify(catalog.name)}${originals.length === 0 ? '' : ` (${suffix.slice(1)})`}`);
  return true;
}

type Repair = (work: CatalogsToCheck, catalog: CatalogName, cut: LogCut | undefined) => Promise<string[]>;

const repairs: Readonly<Record<Exclude<Settings['repair'], 'none'>, Repair>> = {
  async accept({ store }, { id }) {
    // What was acknowledged is not demanded of the file any more.
    await store.db.deleteFrom('catalog_files').where('catalog_id', '=', id).execute();
    return [];
  },
  async wal({ store, dataDirectory, checks, suffix }, catalog, cut) {
    if (!cut) return [];
    const originals = await checks.cutLog(dataDirectory, catalog, cut, suffix);
    const position = { log_bytes: cut.keptBytes };
    await store.db.updateTable('catalog_files').set(position).where('catalog_id', '=', catalog.id).execute();
    return originals;
  },
  async detach({ store, dataDirectory, checks, suffix }, catalog) {
    const originals = await checks.setFilesAside(dataDirectory, catalog, suffix);
    // What is in it, its grants and its open changes go with it.
    await store.db.deleteFrom('objects').where('id', '=', catalog.id).execute();
    return originals;
  },
};

/** In whatever state. */
async function databasesIn(store: Store, { id }: CatalogName): Promise<number> {
  return (await store.db.selectFrom('objects').select('id').where('parent_id', '=', id).execute()).length;
}

async function detachLoses(store: Store, catalog: CatalogName): Promise<string> {
  const tables = await expectedTables(store, catalog.id);
  const counts = `${await databasesIn(store, catalog)} databases with ${tables.length} tables`;
  return `takes the catalog out of the server, with ${counts} and what is granted on them; its files stay`;
}

async function recordedFile(store: Store, { id }: CatalogName): Promise<RecordedFile | undefined> {
  return store.db
    .selectFrom('catalog_files')
    .select(['identity', 'checkpoint', 'log_bytes as logBytes'])
    .where('catalog_id', '=', id)
    .executeTakeFirst();
}
