// A file of a backup brought to the spool, and found to be what the manifest says that it is.
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../../standard/failure.ts';
import { broken } from '../manifest.ts';
import type { BackupTarget } from './backup_target.ts';

export interface PartToDownload {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * `ms`: for all of it. `appends`: it comes after what the file holds already. Throws DATA_INVALID where it is another,
 * REMOTE_UNAVAILABLE where it takes too long; then there is no file.
 */
export async function downloadPart(
  place: BackupTarget,
  { path, bytes, sha256 }: PartToDownload,
  to: string,
  {
    signal: cancelled,
    ms,
    appends = false,
  }: { readonly signal: AbortSignal; readonly ms: number; readonly appends?: boolean },
): Promise<void> {
  const signal = AbortSignal.any([cancelled, AbortSignal.timeout(ms)]);
  const file = basename(path);
  const hash = createHash('sha256');
  let got = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      got += chunk.length;
      if (got > bytes) return done(broken(`the file ${file} is larger than it was`, { file }));
      hash.update(chunk);
      done(null, chunk);
    },
  });
  try {
    await pipeline(
      await place.read(path, signal),
      counted,
      createWriteStream(to, { mode: 0o600, flags: appends ? 'a' : 'w' }),
      { signal },
    );
    if (got !== bytes) throw broken(`the file ${file} has ${got} bytes, and had ${bytes}`, { file });
    if (hash.digest('hex') !== sha256) throw broken(`the file ${file} is not as it was written`, { file });
  } catch (error) {
    await rm(to, { force: true });
    if (signal.aborted && !cancelled.aborted)
      throw new Failure('REMOTE_UNAVAILABLE', 'a file did not come in time', {}, { cause: error });
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC')
      throw new Failure('STORAGE_FULL', 'the disk of the service is full', {}, { cause: error });
    throw error;
  }
}
