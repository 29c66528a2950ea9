// Downloads a file of a backup to the spool directory and verifies it against the manifest.
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../../standard/failure.ts';
import { isFullDisk, storageFull } from '../../store/disk_space.ts';
import { unusableBackup } from '../manifest.ts';
import type { BackupTarget } from './backup_target.ts';

export interface PartToDownload {
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * `ms`: timeout for the whole file. `appends`: appends to the local file. Throws DATA_INVALID if the file differs from the manifest,
 * REMOTE_UNAVAILABLE after the timeout; the local file is removed then.
 */
export async function downloadPart(
  target: BackupTarget,
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
  let received = 0;
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      received += chunk.length;
      if (received > bytes)
        return done(unusableBackup(`the file ${file} is larger than its manifest states`, { file }));
      hash.update(chunk);
      done(null, chunk);
    },
  });
  try {
    await pipeline(
      await target.read(path, signal),
      counted,
      createWriteStream(to, { mode: 0o600, flags: appends ? 'a' : 'w' }),
      { signal },
    );
    if (received !== bytes) throw unusableBackup(`file ${file} has ${received} bytes instead of ${bytes}`, { file });
    if (hash.digest('hex') !== sha256)
      throw unusableBackup(`the file ${file} was changed after it was written`, { file });
  } catch (error) {
    await rm(to, { force: true });
    if (signal.aborted && !cancelled.aborted)
      throw new Failure('REMOTE_UNAVAILABLE', `a file was not received within ${ms} ms`, {}, { cause: error });
    if (isFullDisk(error)) throw storageFull(error);
    throw error;
  }
}
