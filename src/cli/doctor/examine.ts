// All checks of `doctor`, in their order. Loaded for this command only.
import { resolve } from 'node:path';
import type { Settings } from '../../settings/read_settings.ts';
import { hasServerData, isServerRunning, isShared } from '../../store/open_store.ts';
import type { Command } from '../command.ts';
import type { DoctorParts } from './doctor_parts.ts';
import { type Finding, good, skipped, wrongBecause } from './finding.ts';
import { confinementFinding, directoryFindings, diskFinding, nodeFinding, portFinding } from './machine_checks.ts';
import { postgresqlFindings } from './postgresql_checks.ts';
import { runningFindings } from './running_server.ts';
import { sqliteFindings } from './store_checks.ts';

export async function examine(settings: Settings, parts: DoctorParts): Promise<readonly Finding[]> {
  const location = { store: settings.store, dataDirectory: resolve(settings.dataDir) };
  const hasData = hasServerData(location);
  const isRunning = hasData && isServerRunning(location);
  return [
    nodeFinding(process.versions.node),
    ...(await directoryFindings(settings)),
    diskFinding(settings),
    await portFinding(settings, isRunning),
    await parts.requireTransport(settings).then(
      () => good('transport', `the server may listen on ${settings.host}`),
      (error: unknown) => wrongBecause('transport', error),
    ),
    confinementFinding(await parts.confinementOf(settings)),
    ...(await storeFindings(settings, { hasData, isRunning }, parts.check)),
  ];
}

async function storeFindings(
  settings: Settings,
  { hasData, isRunning }: { readonly hasData: boolean; readonly isRunning: boolean },
  check: Command,
): Promise<readonly Finding[]> {
  if (isShared(settings.store)) return postgresqlFindings(settings);
  if (!hasData) return [skipped('store', 'there is no metadata store yet')];
  if (isRunning)
    return [
      ...(await runningFindings(settings)),
      skipped(
        'store',
        'the server is running: stop it for the checks of the store, the catalogs, the key and the clock',
      ),
    ];
  return sqliteFindings(settings, check);
}
