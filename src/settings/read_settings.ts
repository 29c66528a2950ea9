// The server's settings, read: flags before environment variables before the configuration file before defaults, each value
// checked, each refusal naming what to mend. Which settings there are is in settings/server_settings.ts.
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { configFileName, type SettingName, type Settings, sections, settings } from './server_settings.ts';
import {
  flagOf,
  type Setting,
  SettingsError,
  type SettingValue,
  settingValue,
  valueText,
  variableOf,
} from './setting_type.ts';

export type { Settings } from './server_settings.ts';
export { SettingsError } from './setting_type.ts';

export type Environment = Readonly<Record<string, string | undefined>>;
type Values = Partial<Record<SettingName, SettingValue>>;

const names = Object.keys(settings) as SettingName[];
const settingOf = (name: SettingName): Setting => settings[name];
const nameOfFlag = new Map(
  names.filter((name) => settingOf(name).only !== 'variable').map((name) => [flagOf(name), name]),
);
const helpWidth = 100;

/** The known name that is nearest to what was written, as a hint for the mistyped. */
function nearest(written: string, known: readonly string[]): string {
  const letters = (text: string): string => text.toLowerCase().replace(/[^a-z]/g, '');
  const asked = letters(written);
  const found =
    asked.length < 3 ? undefined : known.find((name) => letters(name).startsWith(asked) || letters(name) === asked);
  return found ? `; did you mean ${found}?` : '';
}

function flagValues(argv: readonly string[], command: string): Values {
  const values: Values = {};
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] ?? '';
    const [, written = '', , inline] = /^(-h|--[^=]*)(=(.*))?$/s.exec(argument) ?? [];
    if (written === '') throw new SettingsError(`${JSON.stringify(argument)} is not a flag; --help lists the flags`);
    const off = written.startsWith('--no-') && !nameOfFlag.has(written);
    const flag = written === '-h' ? '--help' : off ? `--${written.slice('--no-'.length)}` : written;
    const name = nameOfFlag.get(flag);
    const isBoolean = name !== undefined && settingOf(name).type === 'boolean';
    if (name === undefined || (off && !isBoolean))
      throw new SettingsError(
        `${written} is not a flag${nearest(written, [...nameOfFlag.keys()])} (--help lists them)`,
      );
    const { command: owners = command } = settingOf(name);
    if (![owners].flat().includes(command))
      throw new SettingsError(`${flag} is a flag of the command "${[owners].flat().join('", "')}" only`);
    if (off && inline !== undefined) throw new SettingsError(`${written} takes no value`);
    if (values[name] !== undefined) throw new SettingsError(`${flag} is given more than once`);
    const given = inline ?? (isBoolean ? !off : argv[++i]);
    if (given === undefined || (inline === undefined && String(given).startsWith('--')))
      throw new SettingsError(`${flag} needs a value`);
    values[name] = settingValue(settingOf(name), given, flag, process.cwd());
  }
  return values;
}

/** An empty variable counts as none. Unknown ones are let be: container platforms add their own after a service's name. */
function variableValues(env: Environment): Values {
  const values: Values = {};
  for (const name of names) {
    const given = env[variableOf(name)];
    if (given === undefined || given === '' || settingOf(name).only === 'flag') continue;
    values[name] = settingValue(settingOf(name), given, variableOf(name), process.cwd());
  }
  return values;
}

/** `mayMove` is false for the file found in the data directory: it cannot say that the data directory is another. */
function fileValues(path: string, mayMove: boolean): Values {
  let keys: unknown;
  try {
    keys = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new SettingsError(`the configuration file ${path} cannot be read: ${(error as Error).message}`);
  }
  if (typeof keys !== 'object' || keys === null || Array.isArray(keys))
    throw new SettingsError(`the configuration file ${path} must hold one JSON object`);
  const allowed = names.filter((name) => settingOf(name).only === undefined && (mayMove || name !== 'dataDir'));
  const values: Values = {};
  for (const [key, given] of Object.entries(keys)) {
    const name = allowed.find((known) => known === key);
    if (name === undefined)
      throw new SettingsError(
        `the configuration file ${path} has the key ${JSON.stringify(key)}, which is not one of its settings${nearest(key, allowed)}`,
      );
    values[name] = settingValue(settingOf(name), given, `the key "${name}" of ${path}`, dirname(path));
  }
  return values;
}

const defaults = (): Values =>
  Object.fromEntries(names.map((name) => [name, settingOf(name).default])) as Record<SettingName, SettingValue>;

/** Rules between two settings, after all are known. */
function requireConsistent(read: Settings): void {
  if (read.headersTimeoutMs > read.requestTimeoutMs)
    throw new SettingsError(
      `headersTimeoutMs (${read.headersTimeoutMs}) must not be larger than requestTimeoutMs (${read.requestTimeoutMs})`,
    );
  if (read.secretKey !== '' && read.secretKeyFile !== '')
    throw new SettingsError(`${variableOf('secretKey')} and secretKeyFile both give the key: give one of them`);
}

/**
 * `argv` is without node, script and command. With `--help` or `--version` nothing but flags is read. Throws SettingsError.
 */
export function readSettings(argv: readonly string[], env: Environment, command = 'serve'): Settings {
  const flags = flagValues(argv, command);
  if (flags.help === true || flags.version === true) return { ...defaults(), ...flags } as Settings;
  const above: Values = { ...variableValues(env), ...flags };
  const named = above.config as string | undefined;
  const dataDir = resolve((above.dataDir as string | undefined) ?? settings.dataDir.default);
  const path = named ?? join(dataDir, configFileName);
  const file = named !== undefined || existsSync(path) ? fileValues(path, named !== undefined) : {};
  const read = { ...defaults(), dataDir, ...file, ...above } as Settings;
  requireConsistent(read);
  return read;
}

function wrapped(text: string, indent: string): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= helpWidth) lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(indent + word);
  }
  return lines;
}

interface Told {
  readonly name: string;
  readonly argument?: string;
  readonly doc: string;
}

export function helpText(commands: readonly Told[]): string {
  const lines = [
    'Usage: tabularium [command] [flags]        in a clone of the source: npm start -- [command] [flags]',
    '',
    'A setting is a flag, an environment variable (--data-dir is TABULARIUM_DATA_DIR) or a key of the configuration',
    'file (dataDir); the first of them that is there counts.',
    '',
    'Commands',
    ...commands.flatMap(({ name, argument, doc }) => [
      `  ${name}${argument === undefined ? '' : ` <${argument}>`}`,
      ...wrapped(doc.replaceAll('`', ''), '      '),
    ]),
  ];
  for (const section of sections) {
    lines.push('', section);
    for (const name of names.filter((each) => settings[each].section === section)) {
      const setting = settingOf(name);
      const written = setting.only === 'variable' ? variableOf(name) : flagOf(name);
      const flag =
        setting.type === 'boolean' ? written : `${written} <${setting.type === 'enum' ? 'word' : setting.type}>`;
      const worth =
        setting.type === 'boolean' || setting.default === '' ? '' : ` [${valueText(setting, setting.default)}]`;
      lines.push(`  ${flag}${worth}`, ...wrapped(setting.doc.replaceAll('`', ''), '      '));
      if (setting.type === 'enum') lines.push(...wrapped(`One of ${setting.values.join(', ')}.`, '      '));
    }
  }
  return lines.join('\n');
}

/** What a new warehouse has; 0 in a setting stands for what the machine has. */
export function warehouseDefaults(settings: Settings) {
  return {
    threads: settings.warehouseThreads || availableParallelism(),
    memoryLimitBytes: settings.warehouseMemoryBytes || Math.floor(totalmem() / 2),
    spillLimitBytes: settings.warehouseSpillBytes,
    autoSuspendSeconds: settings.warehouseAutoSuspendSeconds,
    queriesMax: settings.warehouseQueriesMax,
    queueMax: settings.warehouseQueueMax,
    statementTimeoutSeconds: settings.warehouseStatementTimeoutSeconds,
  };
}
