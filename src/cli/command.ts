// The type of the commands that run on the machine of the server, and the selection of one by the words before the flags. See
// settings/server_settings.ts for the flags of each command.
import { type Settings, SettingsError } from '../settings/read_settings.ts';
import type { SettingName } from '../settings/server_settings.ts';

/** What a command found or did, for `--json`. */
export type CommandAnswer = Readonly<Record<string, unknown>>;

export interface Command {
  /** The words on the command line. */
  readonly name: string;
  /** The name of the required argument after these words. */
  readonly argument?: string;
  /** One sentence, for `--help`. */
  readonly doc: string;
  /** Lines that the command line accepts, for `--help`. */
  readonly examples: readonly string[];
  /** The settings that its help explains besides those that are its own; `all`: those of the server. It accepts every setting of the server. */
  readonly settings: readonly SettingName[] | 'all';
  /**
   * `print` writes a line to the standard output; with `--json` it writes nothing, and the answer is written. Failures are thrown, or
   * reported by `process.exitCode`.
   */
  readonly run: (
    settings: Settings,
    print: (line: string) => void,
    argument?: string,
    invalid?: readonly SettingsError[],
  ) => Promise<CommandAnswer | undefined>;
  /** It continues when nobody reads its output any more. */
  readonly outlivesReader?: boolean;
  /** It reports settings that are invalid itself, and works with those that can be read. */
  readonly acceptsInvalidSettings?: boolean;
}

export const defaultCommand = 'serve';

type Named = Pick<Command, 'name' | 'argument'>;

/** Parses the command, its argument and the flags. Throws SettingsError. */
export function commandOf<C extends Named>(
  argv: readonly string[],
  commands: readonly C[],
): { command: C; argument?: string; flags: string[] } {
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
  const related = commands.filter((candidate) => candidate.name.split(' ')[0] === words[0]);
  const names = (related.length > 0 ? related : commands).map((candidate) => candidate.name).join(', ');
  throw new SettingsError(`${JSON.stringify(name)} is not a command; commands are: ${names} (see --help)`);
}

/** Whether the command line is of a command that calls a server (remote/program.ts): its first word is of no command of this table. */
export function isRemote([first]: readonly string[], commands: readonly Named[]): boolean {
  if (first === undefined || first.startsWith('-')) return false;
  return !commands.some(({ name }) => name.split(' ')[0] === first);
}

/** Whether help is asked for; the help of a command may leave out its argument. */
export const asksForHelp = (argv: readonly string[]): boolean =>
  argv.some((word) => word === '--help' || word === '-h');

/** The words that ask for the help of a command of this machine, whatever flags it was given. */
export const helpWords = (argv: readonly string[]): readonly string[] => {
  const firstFlag = argv.findIndex((word) => word.startsWith('-'));
  return [...argv.slice(0, firstFlag), '--help'];
};
