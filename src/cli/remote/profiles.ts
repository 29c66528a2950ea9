// The profiles of the command line: the servers that a user has signed in to, in a file that only this user can read.
import { chmodSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { createOperatorDirectory } from '../../operator/operator_directory.ts';
import { readOperatorFile } from '../../operator/operator_file.ts';
import { CommandError } from './exit_codes.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Profile {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token: string;
  /** The user to whom the token belongs, as the server said when it was stored. */
  readonly user: string;
}

export interface Profiles {
  /** The name of the profile of commands that name none. */
  readonly current: string;
  readonly profiles: Readonly<Record<string, Profile>>;
}

const fileName = 'profiles.json';
const none: Profiles = { current: 'default', profiles: {} };

/** `$XDG_CONFIG_HOME/tabularium`, by default `~/.config/tabularium`. */
export const configurationDirectory = ({ XDG_CONFIG_HOME: base }: Environment): string =>
  join(base || join(homedir(), '.config'), 'tabularium');

export const profilesPath = (env: Environment): string => join(configurationDirectory(env), fileName);

/** No profiles if there is no file. Throws CommandError. */
export function readProfiles(env: Environment): Profiles {
  const path = profilesPath(env);
  const bytes = readOperatorFile({ path, what: 'the profiles', advice: 'move it away and sign in again' });
  if (bytes === undefined) return none;
  try {
    const read: unknown = JSON.parse(bytes.toString());
    if (isProfiles(read)) return read;
  } catch {
    // Reported below, as a file with other content is.
  }
  throw new CommandError('failed', `${path} is not a file of profiles: move it away and sign in again`);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isProfile = (value: unknown): boolean =>
  isObject(value) && [value.url, value.token, value.user].every((field) => typeof field === 'string');

const isProfiles = (value: unknown): value is Profiles =>
  isObject(value) &&
  typeof value.current === 'string' &&
  isObject(value.profiles) &&
  Object.values(value.profiles).every(isProfile);

/** Replaces the file, which contains tokens, as a whole. Throws CommandError. */
export async function writeProfiles(env: Environment, profiles: Profiles): Promise<void> {
  const path = profilesPath(env);
  const temporary = `${path}.${process.pid}`;
  try {
    await createOperatorDirectory(dirname(path));
    writeFileSync(temporary, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 });
    chmodSync(temporary, 0o600);
    renameSync(temporary, path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    const reason = ['EEXIST', 'ENOTDIR'].includes(code) ? 'a part of its path is a file' : code;
    throw new CommandError(
      'failed',
      `${path} cannot be written (${reason}): make its directory writable, or set XDG_CONFIG_HOME to another one`,
    );
  }
}
