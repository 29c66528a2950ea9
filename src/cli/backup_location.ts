// Parses the backup target in the argument of a command: a directory, or `s3://bucket/prefix`.
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { BackupTarget } from '../backups/targets/backup_target.ts';
import { DirectoryTarget } from '../backups/targets/directory_target.ts';
import { ObjectStoreTarget } from '../backups/targets/object_store_target.ts';
import { HostAllowlist } from '../outbound/host_allowlist.ts';
import { openObjectStore } from '../outbound/object_store.ts';
import { type Settings, SettingsError } from '../settings/read_settings.ts';

/** In the form of a request body. */
export type BackupLocation =
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

/** Throws SettingsError if the credentials of an object store are missing. */
export function parseBackupLocation(where: string, { storeEndpoint, storeRegion }: Settings): BackupLocation {
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

/** The caller must close the target. Throws SettingsError if it cannot be used. */
export async function openBackupTarget(where: string, settings: Settings): Promise<BackupTarget> {
  const target = parseBackupLocation(where, settings);
  if ('s3' in target) return storeOf(target.s3);
  const status = await stat(target.path).catch(() => undefined);
  if (!status?.isDirectory())
    throw new SettingsError(
      status ? `${target.path} is not a directory` : `the directory ${target.path} does not exist`,
    );
  return new DirectoryTarget(target.path);
}

/** Every host is allowed, because the operator chooses it. */
async function storeOf(location: Extract<BackupLocation, { s3: object }>['s3']): Promise<BackupTarget> {
  const { endpoint, region, bucket, prefix = '', accessKeyId, secretAccessKey, sessionToken } = location;
  try {
    const bucketLocation = { endpoint, region, bucket, pathStyle: true };
    const credentials = { accessKeyId, secretAccessKey, sessionToken };
    const store = await openObjectStore(bucketLocation, credentials, new HostAllowlist([new URL(endpoint).host]));
    return new ObjectStoreTarget(store, prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`);
  } catch (error) {
    throw new SettingsError(`${endpoint} cannot be used: ${(error as Error).message}`);
  }
}
