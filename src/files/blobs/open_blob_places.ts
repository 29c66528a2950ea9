// Opens the places of complete results and files that the setting `fileStore` selects.
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Observe } from '../../observe/observations.ts';
import { SettingsError } from '../../operator/operator_error.ts';
import { HostAllowlist } from '../../outbound/host_allowlist.ts';
import {
  type ObjectStore,
  type ObjectStoreCredentials,
  type ObjectStoreLocation,
  openObjectStore,
} from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import { getOrCreateSetting, type Store } from '../../store/store.ts';
import { BlobPlaces } from './blob_places.ts';
import { BucketBlobs } from './bucket_blobs.ts';
import { DirectoryBlobs } from './directory_blobs.ts';

export interface FileStoreSettings {
  /** Empty, or `s3://bucket/prefix`. */
  readonly fileStore: string;
  readonly fileStoreEndpoint: string;
  readonly fileStoreRegion: string;
  readonly fileStoreAccessKeyId: string;
  readonly fileStoreSecretAccessKey: string;
}

interface PlacesOptions {
  readonly bucket: OpenBucket | undefined;
  readonly store: Store;
  readonly dataDirectory: string;
  readonly observe: Observe;
}

/** In the data directory, and in the prefix of the bucket. */
export const blobDirectories = { files: 'files', results: 'results' } as const;

/** Identifies the servers of one metadata store, so that those of another one with the same prefix do not take its objects for orphans. */
const idSetting = 'file_store_id';
const listMs = 15_000;

export interface OpenBucket {
  readonly objects: ObjectStore;
  readonly prefix: string;
  /** Why the object store did not answer. */
  readonly fault: unknown;
}

/** Undefined if results and files stay in the data directory. Throws SettingsError if the setting is invalid, or if the bucket refuses it. */
export async function openBucket(settings: FileStoreSettings): Promise<OpenBucket | undefined> {
  if (settings.fileStore === '') return undefined;
  const { location, prefix, credentials } = parseFileStore(settings);
  // The operator chooses the host.
  const objects = await openObjectStore(location, credentials, new HostAllowlist([new URL(location.endpoint).host]));
  const open = { objects, prefix };
  try {
    for await (const _ of objects.list(prefix, AbortSignal.timeout(listMs))) break;
    return { ...open, fault: undefined };
  } catch (error) {
    if (error instanceof Failure && error.code === 'REMOTE_UNAVAILABLE') return { ...open, fault: error };
    objects.close();
    throw new SettingsError(`fileStore: ${settings.fileStore} cannot be used: ${(error as Error).message}`);
  }
}

export async function openBlobPlaces({ bucket, store, dataDirectory, observe }: PlacesOptions) {
  if (bucket?.fault) observe({ kind: 'backgroundError', what: 'access to the file store', error: bucket.fault });
  const id = bucket && (await getOrCreateSetting(store, idSetting, randomUUID));
  const placesIn = async (name: string) => {
    const directory = new DirectoryBlobs(join(dataDirectory, name));
    await directory.create();
    return new BlobPlaces(directory, bucket && new BucketBlobs(bucket.objects, `${bucket.prefix}${id}/${name}/`));
  };
  return {
    fileBlobs: await placesIn(blobDirectories.files),
    resultBlobs: await placesIn(blobDirectories.results),
    closeBlobs: () => bucket?.objects.close(),
  };
}

interface ParsedFileStore {
  readonly location: ObjectStoreLocation;
  /** Empty, or ends with `/`. */
  readonly prefix: string;
  readonly credentials: ObjectStoreCredentials;
}

/** Throws SettingsError. */
function parseFileStore(settings: FileStoreSettings): ParsedFileStore {
  const { fileStore, fileStoreEndpoint, fileStoreRegion: region } = settings;
  const { fileStoreAccessKeyId: accessKeyId, fileStoreSecretAccessKey: secretAccessKey } = settings;
  const [, bucket, path = ''] = /^s3:\/\/([^/]+)(?:\/+(.*?)\/*)?$/.exec(fileStore) ?? [];
  if (bucket === undefined) throw new SettingsError('fileStore must be s3://bucket or s3://bucket/prefix');
  const endpoint = fileStoreEndpoint || `https://s3.${region}.amazonaws.com`;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ''))
    throw new SettingsError('fileStoreEndpoint must be the http or https URL of an object store');
  if (accessKeyId === '' || secretAccessKey === '')
    throw new SettingsError(
      'fileStore requires TABULARIUM_FILE_STORE_ACCESS_KEY_ID and TABULARIUM_FILE_STORE_SECRET_ACCESS_KEY',
    );
  return {
    location: { endpoint, region, bucket, pathStyle: true },
    prefix: path === '' ? '' : `${path}/`,
    credentials: { accessKeyId, secretAccessKey },
  };
}
