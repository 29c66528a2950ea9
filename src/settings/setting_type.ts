// The types of settings, their names as flag and environment variable, and the conversion of their values from and to text. See
// server_settings.ts for the table of settings.

import { resolve } from 'node:path';
import { SettingsError } from '../operator/operator_error.ts';

export const KiB = 1024;
export const MiB = 1024 * KiB;
export const GiB = 1024 * MiB;
export const TiB = 1024 * GiB;
const bytesPerUnit: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB,
  MiB,
  GiB,
  TiB,
};
const shownCharsMax = 60;

interface SettingBase {
  readonly section: string;
  /** Markdown; shown by `--help` and in docs/configuration.md. */
  readonly doc: string;
  /** The only allowed sources; absent: all. */
  readonly only?: 'flag' | 'variable' | 'flag and variable';
  /** The commands that accept the flag; absent: all. */
  readonly command?: string | readonly string[];
}
interface TextSetting extends SettingBase {
  readonly type: 'string' | 'path';
  readonly default: string;
}
interface EnumSetting extends SettingBase {
  readonly type: 'enum';
  readonly values: readonly string[];
  readonly default: string;
}
interface NumberSetting extends SettingBase {
  readonly type: 'port' | 'integer' | 'number' | 'bytes';
  readonly min: number;
  readonly max: number;
  readonly default: number;
}
interface BooleanSetting extends SettingBase {
  readonly type: 'boolean';
  readonly default: boolean;
}
export type Setting = TextSetting | EnumSetting | NumberSetting | BooleanSetting;
export type SettingValue = string | number | boolean;

const words = (name: string): string[] => name.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
export const flagOf = (name: string): string => `--${words(name).join('-')}`;
export const variableOf = (name: string): string => `TABULARIUM_${words(name).join('_').toUpperCase()}`;

/** 8388608 → `8MiB`; numbers that are not a multiple of a binary unit have no unit. */
export function bytesText(bytes: number): string {
  if (bytes === 0) return '0';
  for (const [unit, size] of Object.entries({ TiB, GiB, MiB, KiB }))
    if (bytes % size === 0) return `${bytes / size}${unit}`;
  return String(bytes);
}

export function valueText(setting: Setting, value: SettingValue): string {
  return setting.type === 'bytes' && typeof value === 'number' ? bytesText(value) : String(value);
}

/** The allowed values, to complete "must be ...". */
export function allowedText(setting: Setting): string {
  switch (setting.type) {
    case 'boolean':
      return 'true or false';
    case 'enum':
      return `one of ${setting.values.join(', ')}`;
    case 'string':
      return 'a non-empty string';
    case 'path':
      return 'a path';
    case 'bytes': {
      const example = setting.default || 512 * MiB;
      return `bytes from ${bytesText(setting.min)} to ${bytesText(setting.max)}, such as ${bytesText(example)} or ${example}`;
    }
    case 'number':
      return `a number from ${setting.min} to ${setting.max}`;
    case 'port':
    case 'integer':
      return `a whole number from ${setting.min} to ${setting.max}`;
  }
}

function numberOf(setting: NumberSetting, text: string): number | undefined {
  if (setting.type === 'bytes') {
    const [, digits = '', unit = 'B'] = /^(\d+(?:\.\d+)?) ?([KMGT]?i?B)?$/.exec(text) ?? [];
    const size = bytesPerUnit[unit];
    const bytes = Number(digits) * (size ?? Number.NaN);
    return digits !== '' && Number.isSafeInteger(bytes) ? bytes : undefined;
  }
  if (setting.type === 'number') return /^\d+(\.\d+)?(e-?\d+)?$/i.test(text) ? Number(text) : undefined;
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** `source`: the flag, variable or key as written. `directory`: the base of relative paths. Throws SettingsError. */
export function settingValue(setting: Setting, input: unknown, source: string, directory: string): SettingValue {
  const reject = (): never => {
    const shown = JSON.stringify(input) ?? String(input);
    const truncated = shown.length > shownCharsMax ? `${shown.slice(0, shownCharsMax)}...` : shown;
    throw new SettingsError(`${source} must be ${allowedText(setting)}; it is ${truncated}`);
  };
  switch (setting.type) {
    case 'boolean':
      if (input === true || input === 'true') return true;
      return input === false || input === 'false' ? false : reject();
    case 'enum':
      return typeof input === 'string' && setting.values.includes(input) ? input : reject();
    case 'string':
      return typeof input === 'string' && input.trim() !== '' ? input : reject();
    case 'path':
      if (typeof input !== 'string' || input === '' || input.includes('\0')) return reject();
      return resolve(directory, input);
    case 'port':
    case 'integer':
    case 'number':
    case 'bytes': {
      if (typeof input !== 'string' && typeof input !== 'number') return reject();
      const value = numberOf(setting, String(input));
      return value !== undefined && value >= setting.min && value <= setting.max ? value : reject();
    }
  }
}
