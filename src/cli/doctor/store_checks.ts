// Checks of a metadata store in the data directory of a stopped server, and what is in it: pages and catalogs as `check` reads them, the key
// of the secrets, the clock, and the servers of clusters.
import { resolve } from 'node:path';
import { sql } from 'kysely';
import type { Settings } from '../../settings/read_settings.ts';
import type { Command } from '../command.ts';
import { secretsOf, withStore } from '../data_directory.ts';
import { backendFindings } from './backend_checks.ts';
import { type Finding, good, wrong, wrongBecause } from './finding.ts';

/** Of a change that is in the store: its time was that of this machine. */
const futureMsMax = 60_000;

/** Of a stopped server with a store in its data directory. Reads everything, as `check` does. */
export async function sqliteFindings(settings: Settings, check: Command): Promise<readonly Finding[]> {
  const found: Finding[] = [...(await checkFindings(settings, check))];
  try {
    await withStore(settings, async ({ store }) => {
      const dataDirectory = resolve(settings.dataDir);
      found.push(
        await secretsOf(settings, store, dataDirectory).then(
          () => good('secrets', 'the key opens the secrets'),
          (error: unknown) => wrongBecause('secrets', error),
        ),
      );
      const newest = await sql<{ at: number | null }>`select max(updated_at) as at from objects`.execute(store.db);
      found.push(pastFinding(Number(newest.rows[0]?.at ?? 0)));
      const backends = await store.db
        .selectFrom('objects')
        .select(['name', 'spec'])
        .where('category', '=', 'backends')
        .execute();
      found.push(...(await backendFindings(backends)));
    });
  } catch (error) {
    found.push(wrongBecause('store', error));
  }
  return found;
}

async function checkFindings(settings: Settings, check: Command): Promise<readonly Finding[]> {
  const lines: string[] = [];
  const { exitCode } = process;
  try {
    await check.run({ ...settings, repair: 'none', catalog: '' }, (line) => lines.push(line));
  } catch (error) {
    return [wrongBecause('store', error)];
  } finally {
    process.exitCode = exitCode;
  }
  const faults = lines.filter((line) => /^(FAULT|DAMAGED)/.test(line));
  if (faults.length === 0) return [good('store', 'the metadata store and the catalogs are as they were written')];
  return faults.map((line) =>
    wrong(
      line.startsWith('DAMAGED') ? 'catalog' : 'store',
      `${line.replace(/^\w+:? */, '')}: \`tabularium check\` says what each --repair would lose`,
    ),
  );
}

function pastFinding(newestMs: number): Finding {
  const ahead = newestMs - Date.now();
  return ahead <= futureMsMax
    ? good('clock', 'no change of the store is in the future')
    : wrong(
        'clock',
        `the clock of this machine is at least ${Math.round(ahead / 1000)} s behind a change in the store: set it, and let NTP keep it right`,
      );
}
