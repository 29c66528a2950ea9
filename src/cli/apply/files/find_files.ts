// The files of a directory: `.yaml`, `.yml` and `.sql`, in the order of their names. Everything that it reads is bounded.
import { readdirSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { CommandError } from '../../remote/exit_codes.ts';
import { unreadableBecause } from '../../remote/field_options.ts';

export interface SourceFile {
  /** As the user has named it. */
  readonly path: string;
  readonly format: 'yaml' | 'sql';
  readonly text: string;
}

const formats: Readonly<Record<string, SourceFile['format']>> = { '.yaml': 'yaml', '.yml': 'yaml', '.sql': 'sql' };
const fileBytesMax = 4 * 1024 * 1024;
const allBytesMax = 64 * 1024 * 1024;
const filesMax = 10_000;
const depthMax = 32;

/** Throws CommandError. */
export function readSources(path: string): readonly SourceFile[] {
  const stats = statOf(path);
  if (!stats.isDirectory()) {
    if (!formats[extname(path)])
      throw new CommandError('usage', `${path} is not a .yaml, .yml or .sql file; docs/apply.md describes them`);
    return [readSource(path, stats)];
  }
  const files: SourceFile[] = [];
  let bytes = 0;
  for (const each of pathsIn(path, [], 0)) {
    const file = readSource(each, statOf(each));
    bytes += file.text.length;
    files.push(file);
    if (files.length > filesMax)
      throw new CommandError('usage', `${path} has more than ${filesMax} files: apply its directories one by one`);
    if (bytes > allBytesMax)
      throw new CommandError('usage', `the files in ${path} have more than 64 MiB: apply its directories one by one`);
  }
  if (files.length === 0)
    throw new CommandError('usage', `${path} has no .yaml, .yml or .sql file; docs/apply.md describes them`);
  return files;
}

/** `above`: the real paths of the directories around it, by which a circle of symbolic links is found. */
function* pathsIn(directory: string, above: readonly string[], depth: number): Generator<string> {
  const real = realpathSync(directory);
  if (above.includes(real))
    throw new CommandError('usage', `${directory} is a symbolic link to a directory around it; remove the link`);
  if (depth > depthMax)
    throw new CommandError('usage', `${directory} is more than ${depthMax} directories deep: move its files up`);
  for (const name of namesIn(directory)) {
    if (name.startsWith('.')) continue;
    const path = join(directory, name);
    if (statOf(path).isDirectory()) yield* pathsIn(path, [...above, real], depth + 1);
    else if (formats[extname(name)]) yield path;
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).sort();
  } catch (error) {
    throw unreadable(directory, error);
  }
}

function statOf(path: string): Stats {
  try {
    return statSync(path);
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): CommandError {
  return new CommandError('usage', `${path} cannot be read (${unreadableBecause(cause)})`, { cause });
}

function readSource(path: string, stats: Stats): SourceFile {
  if (!stats.isFile())
    throw new CommandError('usage', `${path} is not a regular file: give a file, or a directory of files`);
  if (stats.size > fileBytesMax)
    throw new CommandError(
      'usage',
      `${path} has ${stats.size} bytes; a file can have at most ${fileBytesMax}: split it`,
    );
  const format = formats[extname(path)] ?? 'yaml';
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    throw unreadable(path, error);
  }
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (!text.includes('\0')) return { path, format, text };
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
  }
  throw new CommandError('usage', `${path} is not a text in UTF-8: convert it`);
}
