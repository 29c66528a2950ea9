// What the settings say of loads and of directories for backups, made sure of at the start: directories that are there, hosts that can be.
import { realpath } from 'node:fs/promises';
import { delimiter, isAbsolute, sep } from 'node:path';
import { HostAllowlist } from '../../outbound/host_allowlist.ts';
import type { LoadFileOptions } from './load_sources.ts';

/** Told without a stack: who wrote the settings can mend it. */
export class LoadSettingsError extends Error {
  override name = 'LoadSettingsError';
}

interface LoadSettings {
  readonly loadDirectories: string;
  readonly loadHosts: string;
  readonly loadFetchSeconds: number;
  readonly loadFileBytesMax: number;
}

/** Throws LoadSettingsError. */
export async function loadingOf(
  settings: LoadSettings,
  dataDirectory: string,
): Promise<Omit<LoadFileOptions, 'spoolDirectory' | 'files'>> {
  return {
    directories: await directoriesOutside(dataDirectory, 'loadDirectories', settings.loadDirectories),
    bytesMax: settings.loadFileBytesMax,
    hosts: hostRules(settings.loadHosts),
    fetchMs: settings.loadFetchSeconds * 1000,
  };
}

function hostRules(setting: string): HostAllowlist {
  try {
    return new HostAllowlist(setting.split(',').filter((one) => one.trim() !== ''));
  } catch (error) {
    throw new LoadSettingsError(`loadHosts: ${(error as Error).message}`);
  }
}

/** What is backed up is for who may read it, and what can be loaded is for everybody. Throws LoadSettingsError. */
export async function backupDirectoriesOf(
  setting: string,
  dataDirectory: string,
  loadDirectories: readonly string[],
): Promise<string[]> {
  const directories = await directoriesOutside(dataDirectory, 'backupDirectories', setting);
  const open = directories.find((one) => loadDirectories.some((other) => isIn(one, other) || isIn(other, one)));
  if (open === undefined) return directories;
  throw new LoadSettingsError(`backupDirectories: ${open} is in or around one of loadDirectories`);
}

/** Real paths. What is in or around the data is no place to load from, or to write to. */
async function directoriesOutside(dataDirectory: string, name: string, setting: string): Promise<string[]> {
  const data = await realpath(dataDirectory);
  const named = setting.split(delimiter).filter((path) => path !== '');
  return Promise.all(
    named.map(async (path) => {
      const real = isAbsolute(path) ? await realpath(path).catch(() => undefined) : undefined;
      if (real === undefined) throw new LoadSettingsError(`${name}: there is no ${path}`);
      if (isIn(data, real) || isIn(real, data))
        throw new LoadSettingsError(`${name}: ${path} is in or around the data directory`);
      return real;
    }),
  );
}

const isIn = (path: string, directory: string) =>
  `${path}${sep}`.startsWith(directory === sep ? sep : `${directory}${sep}`);
