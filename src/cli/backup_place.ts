// The place of backups that the argument of a command names: a directory, or `s3://bucket/prefix`.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { BackupTarget } from '../backups/targets/backup_target.ts';
import { DirectoryTarget } from '../backups/targets/directory_target.ts';
import { ObjectStoreTarget } from '../backups/targets/object_store_target.ts';
import { HostAllowlist } from '../outbound/host_allowlist.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';

/** As the body of a request names it. */
export type PlaceNamed =
  | { readonly path: string }
  | {
      readonly s3: {
        readonly endpoint: string;
        readonly region: string;
        readonly bucket: string;
        readonly prefix?: string;
        readonly accessKeyId: string;
        readonly secretAccessKey: string;
        readonly sessionToken?: string;
      };
    };

/** Throws SettingsError where the credentials of an object store are missing. */
export function placeNamed(where: string, { storeEndpoint, storeRegion }: Settings): PlaceNamed {
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(where) ?? [];
  if (bucket === undefined) return { path: resolve(where) };
  const {
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
    AWS_SESSION_TOKEN: sessionToken,
  } = process.env;
  if (!accessKeyId || !secretAccessKey)
    throw new SettingsError('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set');
  const endpoint = storeEndpoint || `https://s3.${storeRegion}.amazonaws.com`;
  const optional = { ...(prefix && { prefix }), ...(sessionToken && { sessionToken }) };
  return { s3: { endpoint, region: storeRegion, bucket, accessKeyId, secretAccessKey, ...optional } };
}

/** To be closed. Throws SettingsError where it cannot be used. */
export async function placeOf(where: string, settings: Settings): Promise<BackupTarget> {
  const named = placeNamed(where, settings);
  if ('s3' in named) return storeOf(named.s3);
  const found = await stat(named.path).catch(() => undefined);
  if (!found?.isDirectory()) throw new SettingsError(`there is no directory ${named.path}`);
  return new DirectoryTarget(named.path);
}

/** The one who starts the command says which host: any is allowed. */
async function storeOf(named: Extract<PlaceNamed, { s3: object }>['s3']): Promise<BackupTarget> {
  const { endpoint, region, bucket, prefix = '', accessKeyId, secretAccessKey, sessionToken } = named;
  try {
    const place = { endpoint, region, bucket, pathStyle: true };
    const credentials = { accessKeyId, secretAccessKey, sessionToken };
    const store = await openObjectStore(place, credentials, new HostAllowlist([new URL(endpoint).host]));
    return new ObjectStoreTarget(store, prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`);
  } catch (error) {
    throw new SettingsError(`${endpoint} cannot be used: ${(error as Error).message}`);
  }
}
