// Reads and validates the settings of the server. In order of precedence: flags, environment variables, the configuration file,
// defaults. See server_settings.ts for the table of settings.
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { SettingsError } from '../operator/operator_error.ts';
import { readOperatorFile, requireOperatorFile } from '../operator/operator_file.ts';
import {
  configFileName,
  type SettingName,
  type Settings,
  settingNames,
  settingOf,
  settings,
} from './server_settings.ts';
import { flagOf, type SettingValue, settingValue, variableOf } from './setting_type.ts';

export { SettingsError } from '../operator/operator_error.ts';
export type { Settings } from './server_settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;
type Values = Partial<Record<SettingName, SettingValue>>;

const nameOfFlag = new Map(
  settingNames.filter((name) => settingOf(name).only !== 'variable').map((name) => [flagOf(name), name]),
);

/** A hint with the most similar known name, if there is one. */
function similarNameHint(written: string, known: readonly string[]): string {
  const letters = (text: string): string => text.toLowerCase().replace(/[^a-z]/g, '');
  const prefix = letters(written);
  const similar = prefix.length < 3 ? undefined : known.find((name) => letters(name).startsWith(prefix));
  return similar ? `; did you mean ${similar}?` : '';
}

function flagValues(argv: readonly string[], command: string): Values {
  const values: Values = {};
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] ?? '';
    const [, written = '', , inline] = /^(-h|--[^=]*)(=(.*))?$/s.exec(argument) ?? [];
    if (written === '') throw new SettingsError(`${JSON.stringify(argument)} is not a flag; --help lists the flags`);
    const isNegated = written.startsWith('--no-') && !nameOfFlag.has(written);
    const flag = written === '-h' ? '--help' : isNegated ? `--${written.slice('--no-'.length)}` : written;
    const name = nameOfFlag.get(flag);
    const isBoolean = name !== undefined && settingOf(name).type === 'boolean';
    if (name === undefined || (isNegated && !isBoolean))
      throw new SettingsError(
        `${written} is not a flag${similarNameHint(written, [...nameOfFlag.keys()])} (--help lists them)`,
      );
    const { command: owners = command } = settingOf(name);
    if (![owners].flat().includes(command))
      throw new SettingsError(`${flag} is only accepted by the command "${[owners].flat().join('", "')}"`);
    if (isNegated && inline !== undefined) throw new SettingsError(`${written} does not accept a value`);
    if (values[name] !== undefined) throw new SettingsError(`${flag} is repeated`);
    const value = inline ?? (isBoolean ? !isNegated : argv[++i]);
    if (value === undefined || (inline === undefined && String(value).startsWith('--')))
      throw new SettingsError(`${flag} requires a value`);
    values[name] = settingValue(settingOf(name), value, flag, process.cwd());
  }
  return values;
}

/** Empty variables are ignored. So are unknown ones, because container platforms add variables that start with the name of a service. */
function variableValues(env: Environment): Values {
  const values: Values = {};
  for (const name of settingNames) {
    const value = env[variableOf(name)];
    if (value === undefined || value === '' || settingOf(name).only === 'flag') continue;
    values[name] = settingValue(settingOf(name), value, variableOf(name), process.cwd());
  }
  return values;
}

/** Undefined if there is no file in the data directory. A file that a flag or a variable names must exist. */
function configurationText(path: string, isNamed: boolean): string | undefined {
  const advice = isNamed ? 'give another with --config' : 'put a JSON file there, or move it away';
  const file = { path, what: 'the configuration file', advice, errorClass: SettingsError };
  return (isNamed ? requireOperatorFile(file) : readOperatorFile(file))?.toString();
}

/** `allowDataDir` is false for the file in the data directory, which cannot define another data directory. */
function fileValues(path: string, text: string, allowDataDir: boolean): Values {
  let keys: unknown;
  try {
    keys = JSON.parse(text);
  } catch (error) {
    throw new SettingsError(`the configuration file ${path} cannot be read as JSON: ${(error as Error).message}`);
  }
  if (typeof keys !== 'object' || keys === null || Array.isArray(keys))
    throw new SettingsError(`the configuration file ${path} must contain one JSON object`);
  const allowed = settingNames.filter(
    (name) => settingOf(name).only === undefined && (allowDataDir || name !== 'dataDir'),
  );
  const values: Values = {};
  for (const [key, value] of Object.entries(keys)) {
    const name = allowed.find((known) => known === key);
    if (name === undefined)
      throw new SettingsError(
        `the configuration file ${path} has the key ${JSON.stringify(key)}, which is not one of its settings${similarNameHint(key, allowed)}`,
      );
    values[name] = settingValue(settingOf(name), value, `the key "${name}" of ${path}`, dirname(path));
  }
  return values;
}

const defaults = (): Values =>
  Object.fromEntries(settingNames.map((name) => [name, settingOf(name).default])) as Record<SettingName, SettingValue>;

/** Rules between two settings. */
function requireConsistent(read: Settings): void {
  if (read.headersTimeoutMs > read.requestTimeoutMs)
    throw new SettingsError(
      `headersTimeoutMs (${read.headersTimeoutMs}) must not exceed requestTimeoutMs (${read.requestTimeoutMs})`,
    );
  if (read.secretKey !== '' && read.secretKeyFile !== '')
    throw new SettingsError(`${variableOf('secretKey')} and secretKeyFile are both set; set only one of them`);
}

/** Other users of the machine can read the flags of a process. */
function refusePassword(flags: Values): void {
  for (const name of ['store', 'from', 'to'] as const) {
    const value = flags[name];
    if (typeof value === 'string' && /^[^/]*\/\/[^/?@]*:[^/?]*@|[?&]password=/i.test(value))
      throw new SettingsError(
        `${flagOf(name)} must not contain a password, because other users of the machine can read it: set ${variableOf(name)} or PGPASSWORD`,
      );
  }
}

/** As `readSettings`, but leaves out the file, then the variables, then the flags if they are invalid. */
export function readValidSettings(
  argv: readonly string[],
  env: Environment,
  command: string,
): { readonly settings: Settings; readonly invalid: readonly SettingsError[] } {
  const invalid: SettingsError[] = [];
  const sources: readonly (readonly [readonly string[], Environment, boolean])[] = [
    [argv, env, true],
    [argv, env, false],
    [argv, {}, false],
  ];
  for (const [flags, variables, readsFile] of sources) {
    try {
      return { settings: readSettings(flags, variables, command, readsFile), invalid };
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      if (!invalid.some(({ message }) => message === error.message)) invalid.push(error);
    }
  }
  return { settings: readSettings([], {}, command, false), invalid };
}

/**
 * `argv` excludes node, script and command. With `--help` or `--version` only flags are read. `readsFile`: whether the configuration file is
 * read. Throws SettingsError.
 */
export function readSettings(argv: readonly string[], env: Environment, command = 'serve', readsFile = true): Settings {
  const flags = flagValues(argv, command);
  refusePassword(flags);
  if (flags.help === true || flags.version === true) return { ...defaults(), ...flags } as Settings;
  const overrides: Values = { ...variableValues(env), ...flags };
  const configPath = overrides.config as string | undefined;
  const dataDir = resolve((overrides.dataDir as string | undefined) ?? settings.dataDir.default);
  const path = configPath ?? join(dataDir, configFileName);
  const isNamed = configPath !== undefined;
  const text = readsFile ? configurationText(path, isNamed) : undefined;
  const file = text === undefined ? {} : fileValues(path, text, isNamed);
  const read = { ...defaults(), dataDir, ...file, ...overrides } as Settings;
  requireConsistent(read);
  return read;
}

/** What the processes of a server can use: the memory of the machine, or less in a container. `limit`: 0 if there is none. */
export const usableMemoryBytes = (total = totalmem(), limit = process.constrainedMemory()): number =>
  limit > 0 ? Math.min(total, limit) : total;

/** The defaults of a new warehouse; 0 for threads or memory: derived from the machine. */
export function warehouseDefaults(settings: Settings) {
  return {
    threads: settings.warehouseThreads || availableParallelism(),
    memoryLimitBytes: settings.warehouseMemoryBytes || Math.floor(usableMemoryBytes() / 2),
    spillLimitBytes: settings.warehouseSpillBytes,
    autoSuspendSeconds: settings.warehouseAutoSuspendSeconds,
    queriesMax: settings.warehouseQueriesMax,
    queueMax: settings.warehouseQueueMax,
    statementTimeoutSeconds: settings.warehouseStatementTimeoutSeconds,
  };
}
