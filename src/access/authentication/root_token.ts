// The token of `root`, created at the first start and stored in the data directory, mode 0600: access that cannot be revoked.
import { randomBytes } from 'node:crypto';
import { chmod, link, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readOperatorFile } from '../../operator/operator_file.ts';
import { DataDirectoryError } from '../../store/data_directory.ts';

export const rootTokenFileName = 'root.token';
/** Recognizable to secret scanners; 256 random bits follow. */
const tokenPrefix = 'tbl_root_';

/** Reads or creates the token. The file is created atomically: written under another name, then linked. */
export async function rootToken(dataDirectory: string): Promise<string> {
  const path = join(dataDirectory, rootTokenFileName);
  const existing = readRootToken(dataDirectory);
  if (existing !== undefined) return existing;
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
  return readRootToken(dataDirectory) ?? token;
}

/** Undefined if there is none. Throws OperatorError. */
export function readRootToken(dataDirectory: string): string | undefined {
  const path = join(dataDirectory, rootTokenFileName);
  const advice = 'put the file back, or remove what is there to have a new one made';
  const token = readOperatorFile({ path, what: 'the token of root', advice })?.toString().trim();
  if (token !== undefined && token.length < 32)
    throw new DataDirectoryError(
      `${path} contains no usable token; delete it and restart the server, which creates a new one`,
    );
  return token;
}
