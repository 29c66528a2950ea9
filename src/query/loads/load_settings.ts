// Reads the settings of loads and of backup directories, and validates them at the start: directories exist, host patterns are
// well-formed.

import { realpath } from 'node:fs/promises';
import { delimiter, isAbsolute, sep } from 'node:path';
import { OperatorError } from '../../operator/operator_error.ts';
import { HostAllowlist } from '../../outbound/host_allowlist.ts';
import type { LoadFileOptions } from './load_sources.ts';

/** Reported without a stack trace: the operator can correct the settings. */
export class LoadSettingsError extends OperatorError {
  override readonly name: string = 'LoadSettingsError';
}

interface LoadSettings {
  readonly loadDirectories: string;
  readonly loadHosts: string;
  readonly loadFetchSeconds: number;
  readonly loadFileBytesMax: number;
}

/** Throws LoadSettingsError. */
export async function readLoadSettings(
  settings: LoadSettings,
  dataDirectory: string,
): Promise<Omit<LoadFileOptions, 'spoolDirectory' | 'files'>> {
  return {
    directories: await directoriesOutside(dataDirectory, 'loadDirectories', settings.loadDirectories),
    bytesMax: settings.loadFileBytesMax,
    hosts: parseHosts(settings.loadHosts),
    fetchMs: settings.loadFetchSeconds * 1000,
  };
}

function parseHosts(setting: string): HostAllowlist {
  try {
    return new HostAllowlist(setting.split(',').filter((host) => host.trim() !== ''));
  } catch (error) {
    throw new LoadSettingsError(`loadHosts: ${(error as Error).message}`);
  }
}

/** Backups are readable by privilege, loadable files by everybody, so the directories must not overlap. Throws LoadSettingsError. */
export async function readBackupDirectories(
  setting: string,
  dataDirectory: string,
  loadDirectories: readonly string[],
): Promise<string[]> {
  const directories = await directoriesOutside(dataDirectory, 'backupDirectories', setting);
  const overlapping = directories.find((candidate) =>
    loadDirectories.some((other) => isIn(candidate, other) || isIn(other, candidate)),
  );
  if (overlapping === undefined) return directories;
  throw new LoadSettingsError(`backupDirectories: ${overlapping} overlaps with one of loadDirectories`);
}

/** Returns real paths. A directory in or around the data directory is refused, for reading and for writing. */
async function directoriesOutside(dataDirectory: string, name: string, setting: string): Promise<string[]> {
  const data = await realpath(dataDirectory);
  const paths = setting.split(delimiter).filter((path) => path !== '');
  return Promise.all(
    paths.map(async (path) => {
      const real = isAbsolute(path) ? await realpath(path).catch(() => undefined) : undefined;
      if (real === undefined) throw new LoadSettingsError(`${name}: ${path} does not exist or is not an absolute path`);
      if (isIn(data, real) || isIn(real, data))
        throw new LoadSettingsError(`${name}: ${path} overlaps with the data directory`);
      return real;
    }),
  );
}

const isIn = (path: string, directory: string) =>
  `${path}${sep}`.startsWith(directory === sep ? sep : `${directory}${sep}`);
