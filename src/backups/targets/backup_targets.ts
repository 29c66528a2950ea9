// Which places the server may write backups to and read them from: directories of the settings, object stores on hosts of the
// settings. What is refused is told alike, whether it is there or not.
import { mkdir, realpath } from 'node:fs/promises';
import { dirname, isAbsolute, resolve, sep } from 'node:path';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { type ObjectStoreCredentials, type ObjectStoreLocation, openObjectStore } from '../../outbound/object_store.ts';
import { Failure } from '../../standard/failure.ts';
import type { BackupTarget } from './backup_target.ts';
import { DirectoryTarget } from './directory_target.ts';
import { ObjectStoreTarget } from './object_store_target.ts';

export type TargetRequest =
  | { readonly kind: 'directory'; readonly path: string }
  | (ObjectStoreLocation & {
      readonly kind: 's3';
      /** Empty, or it ends with `/`. */
      readonly prefix: string;
    });

/** The field of the body that names the place: backups go `to` it, and come `from` it. */
export type Direction = 'to' | 'from';

export interface BackupTargetsOptions {
  /** Absolute, with links followed. */
  readonly directories: readonly string[];
  readonly hosts: Readonly<Record<Direction, HostAllowlist>>;
}

export class BackupTargets {
  readonly #options: BackupTargetsOptions;

  constructor(options: BackupTargetsOptions) {
    this.#options = options;
  }

  /** Throws INVALID_PARAMETER, HOST_NOT_ALLOWED where it could not be used, as far as that can be said without a look at it. */
  async check(asked: TargetRequest, direction: Direction): Promise<void> {
    if (asked.kind === 's3') return (await this.open(asked, undefined, direction)).close();
    await this.#allowed(asked.path, direction);
  }

  /** To be closed. */
  async open(
    asked: TargetRequest,
    credentials: ObjectStoreCredentials | undefined,
    direction: Direction,
  ): Promise<BackupTarget> {
    if (asked.kind === 's3')
      return new ObjectStoreTarget(
        await openObjectStore(asked, credentials, this.#options.hosts[direction]),
        asked.prefix,
      );
    const path = await this.#allowed(asked.path, direction);
    if (direction === 'to')
      await mkdir(path, { recursive: true, mode: 0o700 }).catch((cause) => {
        throw new Failure('REMOTE_REFUSED', 'the directory of the backup cannot be made', {}, { cause });
      });
    // A link that was put there meanwhile leads nowhere else.
    return new DirectoryTarget(await this.#allowed(asked.path, direction));
  }

  /** As it is once links are followed. Where backups go to need not be there yet. */
  async #allowed(path: string, direction: Direction): Promise<string> {
    const pointer = `/${direction}/path`;
    const refused = (message: string) =>
      new Failure('INVALID_PARAMETER', `${pointer} ${message}`, { violations: [{ pointer, rule: 'path', message }] });
    const { directories } = this.#options;
    if (directories.length === 0)
      throw refused(
        'is not taken: this server has no directories for backups; the setting `backupDirectories` names them',
      );
    const real = isAbsolute(path) && !path.includes('\0') ? await realOf(resolve(path), direction === 'to') : undefined;
    const isIn = (directory: string) => real === directory || real?.startsWith(directory + sep);
    if (real === undefined || !directories.some(isIn))
      throw refused('is not in a directory that this server has for backups, or there is nothing of that name');
    return real;
  }
}

/** `mayBeMade`: what of it is not there yet is taken as it is written. */
async function realOf(path: string, mayBeMade: boolean): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!mayBeMade || !isMissing || dirname(path) === path) return undefined;
    const parent = await realOf(dirname(path), true);
    return parent === undefined ? undefined : `${parent}${path.slice(dirname(path).length)}`;
  }
}
