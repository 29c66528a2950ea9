// The command `backup verify`: goes over backups in a directory or an object store, without a server, and says what of them is not as
// it was written. What is looked at is backups/verification.ts'.
import { computeTotals } from '../backups/manifest.ts';
import { listServerBackups, serverTotals } from '../backups/server/server_manifest.ts';
import { type ServerVerdict, sweepServerBackups, verifyServerBackups } from '../backups/server/server_verification.ts';
import type { BackupTarget } from '../backups/targets/backup_target.ts';
import { sweepUnnamed, type Verdict, verifyBackups } from '../backups/verification.ts';
import { Failure } from '../standard/failure.ts';
import { placeOf } from './backup_place.ts';
import type { Command } from './command.ts';

export const backupVerifyCommand: Command = {
  name: 'backup verify',
  argument: 'place',
  doc: 'Goes over the backups in a directory, or in `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: is every file there, and as it was written? Ends with 1 where one is not.',
  run: async (settings, say, where) => {
    const place = await placeOf(where ?? '', settings);
    try {
      const { found, servers } = await verdicts(place, settings.backupId || undefined);
      tell(found, servers, say);
      if (settings.sweep) await sweep(place, say);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      say(`FAULT: ${error.message}`);
      process.exitCode = 1;
    } finally {
      place.close();
    }
  },
};

/** Backups of both kinds; one that is named is of one of them. */
async function verdicts(
  place: BackupTarget,
  backupId: string | undefined,
): Promise<{ found: Verdict; servers: ServerVerdict }> {
  const none = { backups: [], faults: [] };
  const isOfServer = backupId !== undefined && (await listServerBackups(place)).whole.includes(backupId);
  return {
    found: isOfServer ? { ...none, unnamed: undefined } : await verifyBackups(place, backupId),
    servers: backupId === undefined || isOfServer ? await verifyServerBackups(place, backupId) : none,
  };
}

function tell({ backups, faults: found, unnamed }: Verdict, servers: ServerVerdict, say: (line: string) => void): void {
  const faults = [...found, ...servers.faults];
  for (const { manifest, isWhole } of backups) {
    const { backupId, takenAt, of } = manifest;
    const { tables, rows, files, bytes } = computeTotals(manifest);
    const what = of.category === 'catalogs' ? 'catalog' : 'database';
    const holds = `${tables} tables, ${rows} rows, ${files} files, ${bytes} bytes`;
    say(`${isWhole ? 'whole ' : 'BROKEN'} ${backupId} ${takenAt} ${what} ${JSON.stringify(of.name)}: ${holds}`);
  }
  for (const { manifest, isWhole } of servers.backups) {
    const { backupId, takenAt, catalogsLeftOut } = manifest;
    const { catalogs, files, bytes } = serverTotals(manifest);
    const holds = `${catalogs} catalogs, ${files} files, ${bytes} bytes`;
    const without = catalogsLeftOut.map(({ name }) => `, without the damaged ${JSON.stringify(name)}`).join('');
    say(`${isWhole ? 'whole ' : 'BROKEN'} ${backupId} ${takenAt} server: ${holds}${without}`);
  }
  const count = backups.length + servers.backups.length;
  for (const { backupId, file, fault } of faults)
    say(`FAULT: backup ${backupId}${file === undefined ? '' : `, ${file}`}: ${fault}`);
  if (unnamed && unnamed.files > 0)
    say(
      `${unnamed.files} files of ${unnamed.bytes} bytes are of no backup; --sweep takes away those older than a day.`,
    );
  if (faults.length > 0) process.exitCode = 1;
  else say(count === 0 ? 'There is no backup.' : 'Every file is there, as it was written.');
  if (count + faults.length === 0) process.exitCode = 1;
}

async function sweep(place: BackupTarget, say: (line: string) => void): Promise<void> {
  const [swept, ofServers] = [await sweepUnnamed(place, Date.now()), await sweepServerBackups(place, Date.now())];
  const [files, bytes] = [(swept?.files ?? 0) + ofServers.files, (swept?.bytes ?? 0) + ofServers.bytes];
  if (swept) return say(`${files} files of ${bytes} bytes were taken away.`);
  say('Nothing was taken away: a manifest cannot be read, and what it names is not known.');
  process.exitCode = 1;
}
