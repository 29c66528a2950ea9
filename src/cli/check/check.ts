// The command `check`: reads the metadata store and the catalog files of a stopped server, and reports what is damaged, missing or
// lost, and what each repair would lose. `--repair` carries one out; the replaced files are retained under other names.
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { sql } from 'kysely';
import { changeText, forgetLostLines, lostLines } from '../../access/audit/audit_journal.ts';
import type { Settings } from '../../settings/read_settings.ts';
import { checkStoreFile } from '../../store/sqlite/integrity/store_check.ts';
import { isStoreInUse, storeInUseError } from '../../store/sqlite/sqlite_dialect.ts';
import { openSqliteStore, StoreDamaged, storeFileName } from '../../store/sqlite/sqlite_store.ts';
import type { Store } from '../../store/store.ts';
import type { Command } from '../command.ts';
import { requireSqlite, withStore } from '../data_directory.ts';
import type { CatalogChecks } from './catalog_checks.ts';
import { checkCatalogs } from './check_catalogs.ts';
import { RepairAudit } from './repair_audit.ts';

const integrityFaultsMax = 20;
/** Details for an audit event. */
const lostInLineMax = 100;
const storeFileEnds = ['', '-wal', '-sums'] as const;
type Say = (line: string) => void;

export const checkWith =
  (loadChecks: () => Promise<CatalogChecks>): Command['run'] =>
  async (settings, print) => {
    const messages: string[] = [];
    const say = (line: string) => {
      messages.push(line);
      print(line);
    };
    requireSqlite(settings, 'check');
    const checks = await loadChecks();
    // Suffix of the files that a repair retains; unique for each run.
    const suffix = `.damaged-${new Date().toISOString().replace(/[:.]/g, '-')}`;
    const faults = await withCheckedStore(settings, suffix, say, async (found) => {
      const { store, dataDirectory, isCopy, accepted } = found;
      const audit = new RepairAudit(settings, store, dataDirectory);
      try {
        const faulty = [...(await integrityFaults(store)), ...(await journalFaults(found, settings, say))];
        for (const fault of faulty) say(`FAULT: metadata store: ${fault}`);
        if (accepted.length > 0)
          await audit.write({ action: 'metadata_store.repair', details: acceptedDetails(accepted) });
        const repair = isCopy ? 'none' : settings.repair;
        const work = {
          store,
          dataDirectory,
          settings,
          catalogName: settings.catalog,
          repair,
          suffix,
          say,
          checks,
          audit,
        };
        return faulty.length + (await checkCatalogs(work));
      } finally {
        await audit.close();
      }
    });
    if (faults > 0) process.exitCode = 1;
    else say('Nothing is wrong.');
    return { faults, messages };
  };

interface CheckedStore {
  readonly store: Store;
  readonly dataDirectory: string;
  /** The store is damaged; nothing is repaired. */
  readonly isCopy: boolean;
  /** The losses that `--repair=accept` accepted, for the audit trail. */
  readonly accepted: string[];
}

const acceptedDetails = (accepted: readonly string[]) => ({
  repair: 'accept',
  lost: accepted.slice(0, lostInLineMax),
  lostCount: accepted.length,
});

/** A damaged store is read from a copy, because SQLite would change it and its log when closing it. @returns the number of faults. */
async function withCheckedStore(
  settings: Settings,
  suffix: string,
  say: Say,
  check: (found: CheckedStore) => Promise<number>,
): Promise<number> {
  const dataDirectory = resolve(settings.dataDir);
  const file = join(dataDirectory, storeFileName);
  const { faults } = checkStoreFile(file);
  const withOriginal = (accepted: string[]) =>
    withStore(settings, ({ store }) => check({ store, dataDirectory, isCopy: false, accepted }));
  if (faults.length === 0) return withOriginal([]);
  if (isStoreInUse(file)) throw storeInUseError(file);
  if (settings.repair === 'accept') {
    for (const fault of faults) say(`accepted as lost: metadata store: ${fault}`);
    for (const end of storeFileEnds) await copyFile(file + end, file + end + suffix).catch(ignoreMissing);
    say(
      `The original files of the metadata store are ${storeFileName}${suffix}, and -wal and -sums with the same ending.`,
    );
    await rm(`${file}-sums`, { force: true });
    return withOriginal([...faults]);
  }
  for (const fault of faults) say(`FAULT: metadata store: ${fault}`);
  say('  --repair=accept loses that; what SQLite can read of the store is used');
  const copies = await mkdtemp(join(dataDirectory, '.check-'));
  try {
    const copy = join(copies, storeFileName);
    for (const end of ['', '-wal']) await copyFile(file + end, copy + end).catch(ignoreMissing);
    const store = await openSqliteStore({ file: copy });
    try {
      return faults.length + (await check({ store, dataDirectory, isCopy: true, accepted: [] }));
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof Error) || error instanceof StoreDamaged) throw error;
    say(`FAULT: metadata store: it cannot be opened: ${error.message.split('\n', 1)[0]?.replaceAll(`${copies}/`, '')}`);
    return faults.length + 1;
  } finally {
    await rm(copies, { recursive: true, force: true });
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}

async function integrityFaults(store: Store): Promise<string[]> {
  const { rows } = await sql<{
    integrity_check: string;
  }>`pragma integrity_check(${sql.lit(integrityFaultsMax)})`.execute(store.db);
  return rows.map(({ integrity_check: text }) => text).filter((text) => text !== 'ok');
}

async function journalFaults(
  { store, dataDirectory, accepted }: CheckedStore,
  { repair }: Settings,
  say: Say,
): Promise<string[]> {
  const lost = (await lostLines(dataDirectory, store)).map(changeText);
  if (lost.length === 0 || repair !== 'accept') return lost.map((line) => `lost: ${line}`);
  for (const line of lost) say(`accepted as lost: ${line}`);
  forgetLostLines(dataDirectory);
  accepted.push(...lost.map((line) => `lost: ${line}`));
  return [];
}
