// Makes files and directories durable.
import { open } from 'node:fs/promises';

/** Flushes a file to disk, or the entries of a directory: a new, renamed or removed file is durable only once its directory is. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
