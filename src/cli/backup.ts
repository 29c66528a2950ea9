// The command `backup verify`: verifies backups in a directory or an object store, without a server. See backups/verification.ts for the
// verification.
import { computeTotals } from '../backups/manifest.ts';
import { listServerBackups, serverTotals } from '../backups/server/server_manifest.ts';
import { type ServerVerdict, sweepServerBackups, verifyServerBackups } from '../backups/server/server_verification.ts';
import type { BackupTarget } from '../backups/targets/backup_target.ts';
import { sweepUnnamed, type Verdict, verifyBackups } from '../backups/verification.ts';
import { Failure } from '../standard/failure.ts';
import { openBackupTarget } from './backup_location.ts';
import { catalogCount } from './backup_server.ts';
import type { Command } from './command.ts';

export const verifyBackupTarget: Command['run'] = async (settings, print, where) => {
  const target = await openBackupTarget(where ?? '', settings);
  try {
    const { found, servers } = await verdicts(target, settings.backupId || undefined);
    printVerdicts(found, servers, print);
    const swept = settings.sweep ? await sweep(target, print) : undefined;
    return { ...verdictRecord(found, servers), ...(swept === undefined ? {} : { swept }) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    print(`FAULT: ${error.message}`);
    process.exitCode = 1;
    return { backups: [], faults: [{ fault: error.message }] };
  } finally {
    target.close();
  }
};

/** Verifies backups of both kinds; `backupId` is the id of either kind. */
async function verdicts(
  target: BackupTarget,
  backupId: string | undefined,
): Promise<{ found: Verdict; servers: ServerVerdict }> {
  const none = { backups: [], faults: [] };
  const isOfServer = backupId !== undefined && (await listServerBackups(target)).whole.includes(backupId);
  return {
    found: isOfServer ? { ...none, unnamed: undefined } : await verifyBackups(target, backupId),
    servers: backupId === undefined || isOfServer ? await verifyServerBackups(target, backupId) : none,
  };
}

function printVerdicts(
  { backups, faults: found, unnamed }: Verdict,
  servers: ServerVerdict,
  print: (line: string) => void,
): void {
  const faults = [...found, ...servers.faults];
  for (const { manifest, isWhole } of backups) {
    const { backupId, takenAt, of } = manifest;
    const { tables, rows, files, bytes } = computeTotals(manifest);
    const category = of.category === 'catalogs' ? 'catalog' : 'database';
    const totals = `${tables} tables, ${rows} rows, ${files} files, ${bytes} bytes`;
    print(`${isWhole ? 'intact' : 'BROKEN'} ${backupId} ${takenAt} ${category} ${JSON.stringify(of.name)}: ${totals}`);
  }
  for (const { manifest, isWhole } of servers.backups) {
    const { backupId, takenAt, catalogsLeftOut } = manifest;
    const { catalogs, files, bytes } = serverTotals(manifest);
    const totals = `${catalogCount(catalogs)}, ${files} files, ${bytes} bytes`;
    const without = catalogsLeftOut.map(({ name }) => `, without the damaged ${JSON.stringify(name)}`).join('');
    print(`${isWhole ? 'intact' : 'BROKEN'} ${backupId} ${takenAt} server: ${totals}${without}`);
  }
  const count = backups.length + servers.backups.length;
  for (const { backupId, file, fault } of faults)
    print(`FAULT: backup ${backupId}${file === undefined ? '' : `, ${file}`}: ${fault}`);
  if (unnamed && unnamed.files > 0)
    print(
      `${unnamed.files} files (${unnamed.bytes} bytes) belong to no backup; --sweep deletes those older than a day.`,
    );
  if (faults.length > 0) process.exitCode = 1;
  else print(count === 0 ? 'No backups found.' : 'All files exist and are unchanged.');
  if (count + faults.length === 0) process.exitCode = 1;
}

const verdictRecord = (found: Verdict, servers: ServerVerdict) => ({
  backups: [
    ...found.backups.map(({ manifest: { backupId, takenAt, of, ...manifest }, isWhole }) => ({
      backupId,
      takenAt,
      of,
      intact: isWhole,
      ...computeTotals({ backupId, takenAt, of, ...manifest }),
    })),
    ...servers.backups.map(({ manifest, isWhole }) => ({
      backupId: manifest.backupId,
      takenAt: manifest.takenAt,
      of: { category: 'servers' },
      intact: isWhole,
      ...serverTotals(manifest),
    })),
  ],
  faults: [...found.faults, ...servers.faults],
});

/** @returns what was deleted; undefined if nothing could be. */
async function sweep(
  target: BackupTarget,
  print: (line: string) => void,
): Promise<{ readonly files: number; readonly bytes: number } | undefined> {
  const [swept, ofServers] = [await sweepUnnamed(target, Date.now()), await sweepServerBackups(target, Date.now())];
  const [files, bytes] = [(swept?.files ?? 0) + ofServers.files, (swept?.bytes ?? 0) + ofServers.bytes];
  if (swept) {
    print(`Deleted ${files} files (${bytes} bytes).`);
    return { files, bytes };
  }
  print('Nothing was deleted: a manifest cannot be read, so the files that it refers to are unknown.');
  process.exitCode = 1;
  return undefined;
}
