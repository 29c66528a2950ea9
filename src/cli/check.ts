// The command `check`: goes over a stopped server's metadata store and the files of its catalogs, and says what is damaged, missing or
// lost. With `--repair` it accepts what cannot be brought back, so that the server starts with what is there.
import { sql } from 'kysely';
import { changeText, forgetLostLines, lostLines } from '../access/audit_journal.ts';
import { type Settings, SettingsError } from '../settings.ts';
import type { Store } from '../store/store.ts';
import type { Command } from './command.ts';
import { withStore } from './data_directory.ts';

interface RecordedFile {
  readonly identity: string;
  readonly checkpoint: number;
  readonly logBytes: number;
}

export interface CheckParts {
  /** Reads all of a catalog's file. `faults` are sentences; none: it is sound. */
  readonly checkCatalog: (
    dataDirectory: string,
    catalog: { readonly id: string; readonly name: string },
    recorded: RecordedFile | undefined,
  ) => Promise<{ readonly faults: readonly string[]; readonly bytes: number }>;
}

const integrityFaultsMax = 20;

export function checkCommand({ checkCatalog }: CheckParts): Command {
  return {
    name: 'check',
    doc: 'Goes over the metadata store and the catalogs of a stopped server: is every page and every block readable, and nothing older than acknowledged work? Ends with 1 where something is wrong. `--repair` accepts what is lost, so that the server starts with what is there.',
    run: async (settings, say) => {
      const faults = await withStore(settings, async (store, dataDirectory) => {
        const found = [...(await storeFaults(store)), ...(await journalFaults(store, dataDirectory, settings, say))];
        for (const fault of found) say(`FAULT: metadata store: ${fault}`);
        const catalogs = await catalogFaults(store, dataDirectory, settings, checkCatalog, say);
        return found.length + catalogs;
      });
      if (faults > 0) process.exitCode = 1;
      else say('Nothing is wrong.');
    },
  };
}

async function storeFaults(store: Store): Promise<string[]> {
  const { rows } = await sql<{
    integrity_check: string;
  }>`pragma integrity_check(${sql.lit(integrityFaultsMax)})`.execute(store.db);
  return rows.map(({ integrity_check: text }) => text).filter((text) => text !== 'ok');
}

async function journalFaults(
  store: Store,
  dataDirectory: string,
  { repair }: Settings,
  say: (line: string) => void,
): Promise<string[]> {
  const lost = await lostLines(dataDirectory, store);
  if (lost.length === 0 || !repair) return lost.map((line) => `lost: ${changeText(line)}`);
  for (const line of lost) say(`accepted as lost: ${changeText(line)}`);
  forgetLostLines(dataDirectory);
  return [];
}

async function catalogFaults(
  store: Store,
  dataDirectory: string,
  { catalog: only, repair }: Settings,
  checkCatalog: CheckParts['checkCatalog'],
  say: (line: string) => void,
): Promise<number> {
  const rows = await store.db
    .selectFrom('objects')
    .select(['id', 'name'])
    .where('category', '=', 'catalogs')
    .where('state', 'in', ['ready', 'altering'])
    .orderBy('name')
    .execute();
  const checked = rows.filter(({ name }) => only === '' || name === only);
  if (only !== '' && checked.length === 0) throw new SettingsError(`there is no catalog ${JSON.stringify(only)}`);
  let faults = 0;
  for (const catalog of checked) {
    const recorded = await store.db
      .selectFrom('catalog_files')
      .select(['identity', 'checkpoint', 'log_bytes as logBytes'])
      .where('catalog_id', '=', catalog.id)
      .executeTakeFirst();
    const { faults: found, bytes } = await checkCatalog(dataDirectory, catalog, recorded);
    const shown = JSON.stringify(catalog.name);
    const fault = found.join('; ');
    if (found.length === 0) {
      say(`sound   catalog ${shown}: ${bytes} bytes`);
      continue;
    }
    if (!repair) {
      faults++;
      say(`DAMAGED catalog ${shown}: ${fault}`);
      continue;
    }
    // What was acknowledged is not demanded of the file any more: it is attached as it is, if it can be.
    await store.db.deleteFrom('catalog_files').where('catalog_id', '=', catalog.id).execute();
    say(`accepted catalog ${shown} as it is: ${fault}`);
  }
  return faults;
}
