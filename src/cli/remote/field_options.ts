// The fields of a request body as options of a command: their names, help and values follow from the schema of the declaration.
import { readFileSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { snakeCase } from '../../standard/camel_case.ts';
import { parseJson } from '../../standard/json/parse_json.ts';
import type { TObject, TSchema } from '../../standard/type.ts';
import { CommandError } from './exit_codes.ts';
import type { Fields } from './output/records.ts';

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly description?: string;
  readonly default?: unknown;
}

type FieldKind = 'text' | 'integer' | 'number' | 'boolean' | 'choice' | 'texts' | 'json';

interface Field {
  readonly name: string;
  readonly flag: string;
  readonly kind: FieldKind;
  readonly choices: readonly string[];
  readonly isNullable: boolean;
  readonly doc: string;
}

const kebab = (name: string): string => snakeCase(name).replaceAll('_', '-');

function kindOf(schema: Schema, choices: readonly string[]): FieldKind {
  if (choices.length > 0) return 'choice';
  if (schema.type === 'array') return schema.items?.type === 'string' ? 'texts' : 'json';
  if (schema.type === 'string') return 'text';
  if (schema.type === 'integer' || schema.type === 'number' || schema.type === 'boolean') return schema.type;
  return 'json';
}

/** The fields of a body, in the order of the declaration. `taken`: flags that the command has already; such a field is `--set-…`. */
function fieldsOf(body: TObject, taken: ReadonlySet<string>, omitted: ReadonlySet<string>): readonly Field[] {
  return Object.entries(body.properties).flatMap(([name, property]): Field[] => {
    if (omitted.has(name)) return [];
    const schema = property as TSchema & Schema;
    const variants = schema.anyOf ?? [schema];
    const present = variants.filter(({ type }) => type !== 'null');
    const only = present.length === 1 ? (present[0] as Schema) : undefined;
    const values =
      only?.enum ?? (present.every((each) => each.const !== undefined) ? present.map((each) => each.const) : []);
    const choices = values.filter((value): value is string => typeof value === 'string');
    const flag = taken.has(kebab(name)) ? `set-${kebab(name)}` : kebab(name);
    const isNullable = present.length < variants.length;
    const doc = (schema.description ?? only?.description ?? `the field ${name}`).replaceAll('`', '');
    return [
      {
        name,
        flag,
        kind: only || choices.length > 0 ? kindOf(only ?? schema, choices) : 'json',
        choices,
        isNullable,
        doc,
      },
    ];
  });
}

const placeholders: Readonly<Record<FieldKind, string>> = {
  text: '<text>',
  integer: '<integer>',
  number: '<number>',
  boolean: '',
  choice: '<word>',
  texts: '<names>',
  json: '<json>',
};

const parsers: Readonly<Record<FieldKind, (text: string) => unknown>> = {
  text: (text) => text,
  integer: (text) => numberIn(text, /^-?\d+$/, 'a whole number'),
  number: (text) => numberIn(text, /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i, 'a number'),
  boolean: (text) => text,
  choice: (text) => text,
  texts: (text) =>
    text.startsWith('[') ? jsonIn(text) : text === '' ? [] : text.split(',').map((each) => each.trim()),
  json: jsonIn,
};

function numberIn(text: string, pattern: RegExp, what: string): unknown {
  if (!pattern.test(text)) throw new InvalidArgumentError(`It is not ${what}.`);
  return parseJson(text);
}

/** The parser of an option that counts: a whole number of at least `least`. */
export const countFrom =
  (least: number) =>
  (text: string): number => {
    const count = /^\d{1,15}$/.test(text) ? Number(text) : -1;
    if (count < least) throw new InvalidArgumentError(`It is not a whole number from ${least}.`);
    return count;
  };

function jsonIn(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new InvalidArgumentError(`It is not JSON: ${(error as Error).message}`);
  }
}

/** Adds the options of the fields. @returns what reads the body from the values of the options. */
export function addFieldOptions(
  command: Command,
  body: TObject,
  omitted: ReadonlySet<string>,
): (options: Fields) => Record<string, unknown> {
  const taken = new Set(command.options.flatMap(({ long }) => (long ? [long.replace(/^--(no-)?/, '')] : [])));
  const fields = fieldsOf(body, taken, omitted);
  for (const { flag, kind, choices, isNullable, doc } of fields) {
    const option = new Option(`--${flag} ${placeholders[kind]}`.trim(), doc);
    if (kind === 'choice') option.choices([...choices]);
    else if (kind !== 'boolean') option.argParser((text) => parsers[kind](text));
    command.addOption(option);
    if (kind === 'boolean') command.addOption(new Option(`--no-${flag}`, `the opposite of --${flag}`));
    else if (isNullable) command.addOption(new Option(`--no-${flag}`, 'null: removes the value').default(undefined));
  }
  return (options) => {
    const read: Record<string, unknown> = {};
    for (const { name, flag, kind } of fields) {
      const value = options[attributeOf(flag)];
      if (value !== undefined) read[name] = value === false && kind !== 'boolean' ? null : value;
    }
    return read;
  };
}

/** The name under which commander has the value of a flag. */
const attributeOf = (flag: string): string =>
  flag.replace(/-([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());

/** The text of a file, or of the standard input if the path is `-`. Throws CommandError. */
export function textOfFile(path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8');
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** Why a file cannot be read, and what to do. */
export function unreadable(path: string, error: unknown): CommandError {
  const what = path === '-' ? 'the standard input' : `the file ${path}`;
  return new CommandError('usage', `${what} cannot be read (${unreadableBecause(error)})`, { cause: error });
}

export function unreadableBecause(error: unknown): string {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return reasons[code] ?? message;
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist: check the path, and the directory in which the command runs',
  ENOTDIR: 'a part of its path is a file: check the path',
  EACCES: 'this user may not read it: change its mode, or run the command as its owner',
  ELOOP: 'its symbolic links form a circle: remove one of them',
  EISDIR: 'it is a directory: give a file',
  EAGAIN: 'nothing is sent to it: send it a file, as in "command < file"',
};

/** The JSON object of `--body`: its text, `@` and a file, or `-` for the standard input. Throws CommandError. */
export function bodyOf(text: string | undefined): Record<string, unknown> {
  if (text === undefined) return {};
  const written = text === '-' ? textOfFile('-') : text.startsWith('@') ? textOfFile(text.slice(1)) : text;
  let value: unknown;
  try {
    value = parseJson(written);
  } catch (error) {
    throw new CommandError('usage', `--body is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new CommandError('usage', '--body must be one JSON object');
  return value as Record<string, unknown>;
}
