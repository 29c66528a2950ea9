// Checks of the machine: Node.js, the disk and the modes of the data directory, the port, the confinement of engines.
import { accessSync, constants, existsSync, type Stats, statfsSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { rootTokenFileName } from '../../access/authentication/root_token.ts';
import { secretKeyFileName } from '../../access/secrets/secrets.ts';
import type { Settings } from '../../settings/read_settings.ts';
import { createDataDirectory } from '../../store/data_directory.ts';
import { type Finding, good, skipped, wrong, wrongBecause } from './finding.ts';

const nodeMajorMin = 26;
const modeOfOthers = 0o077;
/** As DiskSpace: on a small disk the mark is this fraction of its size. */
const lowFraction = 0.05;

export function nodeFinding(version: string): Finding {
  return Number(version.split('.')[0]) >= nodeMajorMin
    ? good('node', `Node.js ${version}`)
    : wrong('node', `Node.js ${version} is too old: install ${nodeMajorMin} or newer`);
}

/** Empty if there is nothing yet that a server would use. */
export async function directoryFindings({ dataDir, secretKeyFile }: Settings): Promise<readonly Finding[]> {
  const directory = resolve(dataDir);
  const stats = statSync(directory, { throwIfNoEntry: false });
  if (!stats) return [newDirectoryFinding(directory)];
  try {
    // Writes a file and removes it.
    await createDataDirectory(directory);
  } catch (error) {
    return [wrongBecause('data directory', error)];
  }
  const findings = [ownerFinding(directory, stats) ?? modeFinding('data directory', directory, stats, 0o700)];
  const keyFile = secretKeyFile === '' ? join(directory, secretKeyFileName) : resolve(secretKeyFile);
  for (const [check, file] of [
    ['key file', keyFile],
    ['token of root', join(directory, rootTokenFileName)],
  ] as const) {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found) findings.push(modeFinding(check, file, found, 0o600));
  }
  return findings;
}

function newDirectoryFinding(directory: string): Finding {
  let parent = dirname(directory);
  while (!existsSync(parent)) parent = dirname(parent);
  try {
    accessSync(parent, constants.W_OK);
    return good('data directory', `${directory} does not exist yet; the server creates it`);
  } catch {
    return wrong(
      'data directory',
      `${directory} cannot be created: make ${parent} writable, or choose another --data-dir`,
    );
  }
}

function ownerFinding(directory: string, { uid }: Stats): Finding | undefined {
  const own = process.getuid?.();
  return own === undefined || own === uid
    ? undefined
    : wrong(
        'data directory',
        `${directory} belongs to the user ${uid}, and this is ${own}: run the server and its commands as its owner`,
      );
}

function modeFinding(check: string, path: string, { mode }: Stats, wanted: number): Finding {
  const shown = (mode & 0o777).toString(8).padStart(4, '0');
  if ((mode & modeOfOthers) === 0) return good(check, `${path} is accessible to its owner only (${shown})`);
  return wrong(
    check,
    `${path} is accessible to other users of the machine (${shown}): chmod ${wanted.toString(8).padStart(4, '0')} ${path}`,
  );
}

export function diskFinding({ dataDir, diskLowBytes }: Settings): Finding {
  let directory = resolve(dataDir);
  while (!existsSync(directory)) directory = dirname(directory);
  const { bavail, blocks, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  const low = Math.min(diskLowBytes, Math.floor(blocks * bsize * lowFraction));
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  if (free >= low) return good('disk', `${megabytes(free)} are free`);
  return wrong(
    'disk',
    `only ${megabytes(free)} are free at ${directory}, and below ${megabytes(low)} writes are refused: free some space, for example by deleting old backups and dropped objects`,
  );
}

/** `isRunning`: of the server of this data directory, which has the port. */
export function portFinding({ host, port }: Settings, isRunning: boolean): Promise<Finding> {
  if (port === 0) return Promise.resolve(good('port', 'any free port'));
  if (isRunning) return Promise.resolve(skipped('port', `a server is running on this data directory`));
  return new Promise((done) => {
    const server = createServer();
    server.once('error', ({ code = 'unknown error' }: NodeJS.ErrnoException) =>
      done(wrong('port', portProblem(host, port, code))),
    );
    server.listen({ host, port }, () => server.close(() => done(good('port', `${host}:${port} is free`))));
  });
}

function portProblem(host: string, port: number, code: string): string {
  if (code === 'EADDRINUSE')
    return `port ${port} of ${host} is used by another process: end it (ss -ltnp shows it), or choose another --port`;
  if (code === 'EACCES') return `port ${port} may not be used by this user: choose a --port above 1023`;
  return `the server cannot listen on ${host}:${port} (${code}): choose another --host or --port`;
}

export interface ConfinementReport {
  readonly measure: string;
  readonly active: boolean;
  readonly reason: string | null;
}

export function confinementFinding(measures: readonly ConfinementReport[]): Finding {
  const missing = measures.filter(({ active }) => !active);
  if (missing.length === 0)
    return good('confinement', `engines are confined by ${measures.map(({ measure }) => measure).join(', ')}`);
  const reasons = [...new Set(missing.map(({ measure, reason }) => `${measure}: ${reason ?? 'unknown'}`))];
  return wrong(
    'confinement',
    `engines are not fully confined (${reasons.join('; ')}): set engineConfinement to auto, and permit user namespaces on this machine (docs/security.md)`,
  );
}
