// The identity of a data directory among the servers that share a store: a random id in a file, created at the first start.
import { randomUUID } from 'node:crypto';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOperatorFile } from '../operator/operator_file.ts';
import { DataDirectoryError, serverIdFileName } from './data_directory.ts';

const idForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The data directory must be locked. `initial`: the id of a directory that has none yet; by default a new one. Throws OperatorError. */
export function serverIdentity(dataDirectory: string, initial: string = randomUUID()): string {
  const path = join(dataDirectory, serverIdFileName);
  const advice = 'put the file back: leases and audit events of this server have its id';
  const existing = readOperatorFile({ path, what: 'the id of the server', advice })?.toString().trim();
  if (existing === undefined) {
    const id = initial;
    const draft = `${path}.draft`;
    writeFileSync(draft, `${id}\n`, { mode: 0o600, flush: true });
    renameSync(draft, path);
    return id;
  }
  if (!idForm.test(existing)) throw new DataDirectoryError(`${path} contains no id of a server; ${advice}`);
  return existing;
}
