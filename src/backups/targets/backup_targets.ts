// The targets that the server may write backups to and read them from: directories and object store hosts from the settings. A refusal
// does not reveal whether the target exists.
import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, resolve, sep } from 'node:path';
import { createOperatorDirectory } from '../../operator/operator_directory.ts';
import type { HostAllowlist } from '../../outbound/host_allowlist.ts';
import { type ObjectStoreCredentials, type ObjectStoreLocation, openObjectStore } from '../../outbound/object_store.ts';
import { invalidParameter } from '../../standard/failure.ts';
import type { BackupTarget } from './backup_target.ts';
import { DirectoryTarget, unusableDirectory } from './directory_target.ts';
import { ObjectStoreTarget } from './object_store_target.ts';

export type TargetRequest =
  | { readonly kind: 'directory'; readonly path: string }
  | (ObjectStoreLocation & {
      readonly kind: 's3';
      /** Empty, or ends with `/`. */
      readonly prefix: string;
    });

/** The field of the request body that has the target: backups go `to` it and come `from` it. */
export type Direction = 'to' | 'from';

export interface BackupTargetsOptions {
  /** Absolute paths with symbolic links resolved. */
  readonly directories: readonly string[];
  readonly hosts: Readonly<Record<Direction, HostAllowlist>>;
}

export class BackupTargets {
  readonly #options: BackupTargetsOptions;

  constructor(options: BackupTargetsOptions) {
    this.#options = options;
  }

  /** Checks the request without accessing the target. Throws INVALID_PARAMETER, HOST_NOT_ALLOWED. */
  async check(request: TargetRequest, direction: Direction): Promise<void> {
    if (request.kind === 's3') return (await this.open(request, undefined, direction)).close();
    await this.#allowed(request.path, direction);
  }

  /** Opens the target. The caller closes it. */
  async open(
    request: TargetRequest,
    credentials: ObjectStoreCredentials | undefined,
    direction: Direction,
  ): Promise<BackupTarget> {
    if (request.kind === 's3')
      return new ObjectStoreTarget(
        await openObjectStore(request, credentials, this.#options.hosts[direction]),
        request.prefix,
      );
    const path = await this.#allowed(request.path, direction);
    if (direction === 'to')
      await createOperatorDirectory(path).catch((cause) => {
        throw unusableDirectory(cause);
      });
    // Resolved again: a symbolic link that was created meanwhile must not lead elsewhere.
    return new DirectoryTarget(await this.#allowed(request.path, direction));
  }

  /** Returns the path with links resolved. A directory that backups go to need not exist yet. */
  async #allowed(path: string, direction: Direction): Promise<string> {
    const refused = (message: string) => invalidParameter(`/${direction}/path`, 'path', message);
    const { directories } = this.#options;
    if (directories.length === 0)
      throw refused('is not allowed: this server has no directories for backups (setting `backupDirectories`)');
    const real =
      isAbsolute(path) && !path.includes('\0') ? await resolveRealPath(resolve(path), direction === 'to') : undefined;
    const isIn = (directory: string) => real === directory || real?.startsWith(directory + sep);
    if (real === undefined || !directories.some(isIn))
      throw refused(
        'is not in one of the backup directories of this server (setting `backupDirectories`), or does not exist',
      );
    return real;
  }
}

/** `canCreate`: the missing part of the path is taken literally. */
async function resolveRealPath(path: string, canCreate: boolean): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    if (!canCreate || !isMissing || dirname(path) === path) return undefined;
    const parent = await resolveRealPath(dirname(path), true);
    return parent === undefined ? undefined : `${parent}${path.slice(dirname(path).length)}`;
  }
}
