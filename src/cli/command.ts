// The type of the commands of `tabularium`, and the selection of one by the words before the flags. See settings/server_settings.ts for the
// flags of each command.
import { type Settings, SettingsError } from '../settings/read_settings.ts';

export interface Command {
  /** The words on the command line. */
  readonly name: string;
  /** The name of the required argument after these words. */
  readonly argument?: string;
  /** One sentence, for `--help`. */
  readonly doc: string;
  /** `print` writes a line to the standard output. Failures are thrown, or reported by `process.exitCode`. */
  readonly run: (
    settings: Settings,
    print: (line: string) => void,
    argument?: string,
    invalid?: readonly SettingsError[],
  ) => Promise<void>;
  /** It continues when nobody reads its output any more. */
  readonly outlivesReader?: boolean;
  /** It reports settings that are invalid itself, and works with those that can be read. */
  readonly acceptsInvalidSettings?: boolean;
}

export const defaultCommand = 'serve';

/** Parses the command, its argument and the flags. Throws SettingsError. */
export function commandOf(
  argv: readonly string[],
  commands: readonly Command[],
): { command: Command; argument?: string; flags: string[] } {
  const firstFlag = argv.findIndex((argument) => argument.startsWith('-'));
  const words = argv.slice(0, firstFlag < 0 ? argv.length : firstFlag);
  const flags = argv.slice(words.length);
  const name = words.join(' ') || defaultCommand;
  const command = commands.find((candidate) => candidate.name === name && candidate.argument === undefined);
  if (command) return { command, flags };
  const withArgument = commands.find(
    (candidate) => candidate.argument !== undefined && candidate.name === words.slice(0, -1).join(' '),
  );
  if (withArgument) return { command: withArgument, argument: words.at(-1) as string, flags };
  const incomplete = commands.find((candidate) => candidate.name === name);
  if (incomplete)
    throw new SettingsError(`${incomplete.name} requires a ${incomplete.argument} before the flags (see --help)`);
  const names = commands.map((candidate) => candidate.name).join(', ');
  throw new SettingsError(`${JSON.stringify(name)} is not a command; commands are: ${names} (see --help)`);
}

/** Whether the command line is of a command that calls a server (remote/program.ts): its first word is of no command of this table. */
export function isRemote([first]: readonly string[], commands: readonly Command[]): boolean {
  if (first === undefined || first.startsWith('-')) return false;
  return !commands.some(({ name }) => name.split(' ')[0] === first);
}
