// Files that the engine writes may not be larger together than there is room for. COPY knows no such bound: the directory is looked at
// while it works, and what has become too large is stopped.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Failure } from '../../standard/failure.ts';

const lookMs = 100;

/** `stop`: makes the work end with an error; called again until it does. Throws FILE_QUOTA_EXCEEDED. */
export async function bounded<T>(
  directory: string,
  bytesMax: number | undefined,
  stop: () => void,
  work: () => Promise<T>,
): Promise<T> {
  if (bytesMax === undefined) return work();
  let isOver = false;
  let isDone = false;
  const look = async () => {
    isOver ||= (await bytesIn(directory)) > bytesMax;
    // What comes after the work must not be stopped in its place.
    if (isOver && !isDone) stop();
  };
  // What cannot be looked at now is looked at the next time.
  const timer = setInterval(() => void look().catch(() => undefined), lookMs);
  try {
    return await work();
  } catch (error) {
    throw isOver ? tooLarge(bytesMax) : error;
  } finally {
    isDone = true;
    clearInterval(timer);
  }
}

async function bytesIn(directory: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) bytes += (await stat(join(entry.parentPath, entry.name))).size;
  return bytes;
}

const tooLarge = (roomBytes: number) =>
  new Failure('FILE_QUOTA_EXCEEDED', 'the files would be larger than there is room for', { roomBytes });
