// What one setting is: its type, its names as flag, variable and key, and how its value is read from text or JSON and
// written for people. Knows no setting by name: those are in settings/server_settings.ts.
import { resolve } from 'node:path';

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

interface Described {
  readonly section: string;
  /** Markdown; shown by `--help` and in docs/configuration.md. */
  readonly doc: string;
  /** Where it may come from, if not from everywhere. */
  readonly only?: 'flag' | 'variable' | 'flag and variable';
  /** The commands whose flag it is, if not everyone's. */
  readonly command?: string | readonly string[];
}
interface TextSetting extends Described {
  readonly type: 'string' | 'path';
  readonly default: string;
}
interface EnumSetting extends Described {
  readonly type: 'enum';
  readonly values: readonly string[];
  readonly default: string;
}
interface NumberSetting extends Described {
  readonly type: 'port' | 'integer' | 'number' | 'bytes';
  readonly min: number;
  readonly max: number;
  readonly default: number;
}
interface BooleanSetting extends Described {
  readonly type: 'boolean';
  readonly default: boolean;
}
export type Setting = TextSetting | EnumSetting | NumberSetting | BooleanSetting;
export type SettingValue = string | number | boolean;

/** A setting that cannot be used; the message names it as its user wrote it, and says what is allowed. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const words = (name: string): string[] => name.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
export const flagOf = (name: string): string => `--${words(name).join('-')}`;
export const variableOf = (name: string): string => `TABULARIUM_${words(name).join('_').toUpperCase()}`;

/** 8388608 → `8MiB`; numbers that no binary unit divides stay as they are. */
export function bytesText(bytes: number): string {
  if (bytes === 0) return '0';
  for (const [unit, size] of Object.entries({ TiB, GiB, MiB, KiB }))
    if (bytes % size === 0) return `${bytes / size}${unit}`;
  return String(bytes);
}

export function valueText(setting: Setting, value: SettingValue): string {
  return setting.type === 'bytes' && typeof value === 'number' ? bytesText(value) : String(value);
}

/** What is allowed, as the end of "must be ...". */
export function allowedText(setting: Setting): string {
  switch (setting.type) {
    case 'boolean':
      return 'true or false';
    case 'enum':
      return `one of ${setting.values.join(', ')}`;
    case 'string':
      return 'a text that is not empty';
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

/** `where` is the flag, variable or key as its user wrote it; `directory` is what a relative path is relative to. */
export function settingValue(setting: Setting, given: unknown, where: string, directory: string): SettingValue {
  const refuse = (): never => {
    const shown = JSON.stringify(given) ?? String(given);
    const cut = shown.length > shownCharsMax ? `${shown.slice(0, shownCharsMax)}...` : shown;
    throw new SettingsError(`${where} must be ${allowedText(setting)}; it is ${cut}`);
  };
  switch (setting.type) {
    case 'boolean':
      if (given === true || given === 'true') return true;
      return given === false || given === 'false' ? false : refuse();
    case 'enum':
      return typeof given === 'string' && setting.values.includes(given) ? given : refuse();
    case 'string':
      return typeof given === 'string' && given.trim() !== '' ? given : refuse();
    case 'path':
      if (typeof given !== 'string' || given === '' || given.includes('\0')) return refuse();
      return resolve(directory, given);
    case 'port':
    case 'integer':
    case 'number':
    case 'bytes': {
      if (typeof given !== 'string' && typeof given !== 'number') return refuse();
      const value = numberOf(setting, String(given));
      return value !== undefined && value >= setting.min && value <= setting.max ? value : refuse();
    }
  }
}
