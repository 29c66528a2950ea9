// Creates directories at the paths that an operator chose, and their parents.
import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';

/** Only its owner may read what the server keeps. */
const mode = 0o700;

/**
 * Creates the directory and its missing parents. Not the recursive `mkdir` of Node, which never ends where the file system refuses a
 * directory with ENOENT although the parent exists, as procfs does.
 */
export async function createOperatorDirectory(path: string): Promise<void> {
  const directory = resolve(path);
  if (await isDirectory(directory)) return;
  const parent = dirname(directory);
  if (parent !== directory) await createOperatorDirectory(parent);
  try {
    await mkdir(directory, { mode });
  } catch (error) {
    // Somebody else may have created it meanwhile.
    if (!(await isDirectory(directory))) throw error;
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}
