// The place of backups that the argument of a command names: a directory, or `s3://bucket/prefix`.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DirectoryPlace } from '../backups/directory_place.ts';
import type { Place } from '../backups/place.ts';
import { StorePlace } from '../backups/store_place.ts';
import { HostRules } from '../outbound/host_rules.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { type Settings, SettingsError } from '../settings.ts';

/** To be closed. Throws SettingsError where it cannot be used. */
export async function placeOf(where: string, settings: Settings): Promise<Place> {
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
