// The token of `root`, created at the first start and stored in the data directory, mode 0600: access that cannot be revoked.
import { randomBytes } from 'node:crypto';
import { chmod, link, open, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DataDirectoryError } from '../../store/data_directory.ts';

export const rootTokenFileName = 'root.token';
/** Recognisable to secret scanners; 256 random bits follow. */
const tokenPrefix = 'tbl_root_';

/** Reads or creates the token. The file is created atomically: written under another name, then linked. */
export async function rootToken(dataDirectory: string): Promise<string> {
  const path = join(dataDirectory, rootTokenFileName);
  const read = async () => (await readFile(path, 'utf8')).trim();
  try {
    return await checked(await read(), path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof DataDirectoryError) throw error;
    if (code !== 'ENOENT') throw unreadable(path, code, error);
  }
  const token = tokenPrefix + randomBytes(32).toString('base64url');
  const draft = `${path}.${process.pid}`;
  const file = await open(draft, 'w', 0o600);
  try {
    await file.writeFile(`${token}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await chmod(draft, 0o600);
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await rm(draft);
  return checked(await read(), path);
}

function unreadable(path: string, code: string | undefined, cause: unknown): DataDirectoryError {
  const why = code === 'EISDIR' ? 'it is a directory' : (code ?? 'unknown error');
  return new DataDirectoryError(
    `the token of root cannot be read from ${path} (${why}); put the file back, or remove it so that a new one is created`,
    { cause },
  );
}

async function checked(token: string, path: string): Promise<string> {
  if (token.length < 32)
    throw new DataDirectoryError(`${path} holds no usable token; remove it to have a new one made`);
  return token;
}
