// The command `backup verify`: goes over backups in a directory or an object store, without a server, and says what of them is not as
// it was written. What is looked at is backups/verification.ts'.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DirectoryPlace } from '../backups/directory_place.ts';
import { totalsOf } from '../backups/manifest.ts';
import type { Place } from '../backups/place.ts';
import { StorePlace } from '../backups/store_place.ts';
import { sweepUnnamed, type Verdict, verifyBackups } from '../backups/verification.ts';
import { HostRules } from '../outbound/host_rules.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { type Settings, SettingsError } from '../settings.ts';
import { Failure } from '../standard/failure.ts';
import type { Command } from './command.ts';

export const backupVerifyCommand: Command = {
  name: 'backup verify',
  argument: 'place',
  doc: 'Goes over the backups in a directory, or in `s3://bucket/prefix` with the credentials of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: is every file there, and as it was written? Ends with 1 where one is not.',
  run: async (settings, say, where) => {
    const place = await placeOf(where ?? '', settings);
    try {
      const verdict = await verifyBackups(place, settings.backupId || undefined);
      tell(verdict, say);
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

function tell({ backups, faults, unnamed }: Verdict, say: (line: string) => void): void {
  for (const { manifest, isWhole } of backups) {
    const { backupId, takenAt, of } = manifest;
    const { tables, rows, files, bytes } = totalsOf(manifest);
    const what = of.category === 'catalogs' ? 'catalog' : 'database';
    const holds = `${tables} tables, ${rows} rows, ${files} files, ${bytes} bytes`;
    say(`${isWhole ? 'whole ' : 'BROKEN'} ${backupId} ${takenAt} ${what} ${JSON.stringify(of.name)}: ${holds}`);
  }
  for (const { backupId, file, fault } of faults)
    say(`FAULT: backup ${backupId}${file === undefined ? '' : `, ${file}`}: ${fault}`);
  if (unnamed && unnamed.files > 0)
    say(
      `${unnamed.files} files of ${unnamed.bytes} bytes are of no backup; --sweep takes away those older than a day.`,
    );
  if (faults.length > 0) process.exitCode = 1;
  else say(backups.length === 0 ? 'There is no backup.' : 'Every file is there, as it was written.');
  if (backups.length + faults.length === 0) process.exitCode = 1;
}

async function sweep(place: Place, say: (line: string) => void): Promise<void> {
  const swept = await sweepUnnamed(place, Date.now());
  if (swept) return say(`${swept.files} files of ${swept.bytes} bytes were taken away.`);
  say('Nothing was taken away: a manifest cannot be read, and what it names is not known.');
  process.exitCode = 1;
}

async function placeOf(where: string, settings: Settings): Promise<Place> {
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(where) ?? [];
  if (bucket !== undefined) return storeOf(bucket, prefix, settings);
  const directory = resolve(where);
  const found = await stat(directory).catch(() => undefined);
  if (!found?.isDirectory()) throw new SettingsError(`there is no directory ${directory}`);
  return new DirectoryPlace(directory);
}

/** The one who starts the command says which host: any is allowed. */
async function storeOf(bucket: string, prefix: string, { storeEndpoint, storeRegion }: Settings): Promise<Place> {
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: token,
  } = process.env;
  if (!accessKeyId || !secretAccessKey)
    throw new SettingsError('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set');
  const endpoint = storeEndpoint || `https://s3.${storeRegion}.amazonaws.com`;
  try {
    const place = { endpoint, region: storeRegion, bucket, pathStyle: true };
    const credentials = { accessKeyId, secretAccessKey, sessionToken: token || undefined };
    const store = await openObjectStore(place, credentials, new HostRules([new URL(endpoint).host]));
    return new StorePlace(store, prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`);
  } catch (error) {
    throw new SettingsError(`${endpoint} cannot be used: ${(error as Error).message}`);
  }
}
