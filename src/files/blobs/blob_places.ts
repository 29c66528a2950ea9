// Where new blobs are stored, and where those recorded earlier are: in the data directory of the server, or in the bucket.
import { newId } from '../../model/ids.ts';
import { Failure } from '../../standard/failure.ts';
import type { BlobStore } from './blob_store.ts';
import type { DirectoryBlobs } from './directory_blobs.ts';

/**
 * A record contains the key in the bucket, or null for a blob in the data directory
 * of the server, whose key follows from the id of the record. Keys in the bucket are used once, so that servers that store the same thing
 * cannot mix their contents.
 */
export class BlobPlaces {
  readonly directory: DirectoryBlobs;
  readonly bucket: BlobStore | undefined;

  constructor(directory: DirectoryBlobs, bucket: BlobStore | undefined) {
    this.directory = directory;
    this.bucket = bucket;
  }

  /** The key to record for a new blob. Null: in the data directory. */
  newKey(id: string): string | null {
    return this.bucket ? `${id}/${newId()}` : null;
  }

  /** Throws REMOTE_UNAVAILABLE if the blob is in a bucket that the server has no setting for. */
  storeOf(storedAs: string | null): BlobStore {
    if (storedAs === null) return this.directory;
    if (this.bucket) return this.bucket;
    throw new Failure('REMOTE_UNAVAILABLE', 'the file store of this server is not configured');
  }
}

/** The id of the record that a key in the bucket was made for. */
export const idOfKey = (key: string): string => key.slice(0, key.indexOf('/'));

/** A blob without a record may be about to be recorded by another server, unless it is older. More than the longest `put`. */
export const orphanAgeMs = 24 * 3_600_000;
