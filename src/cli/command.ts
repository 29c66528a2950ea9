// What a command of `tabularium` is, and which is meant by the words before the flags. Those that there are is commands.ts; a flag
// that belongs to one command says so in settings/server_settings.ts.
import { type Settings, SettingsError } from '../settings/read_settings.ts';

export interface Command {
  /** The words that call it. */
  readonly name: string;
  /** What is said after these words, and has to be. */
  readonly argument?: string;
  /** One sentence, for `--help`. */
  readonly doc: string;
  /** `say` writes a line for people to the standard output. What went wrong is thrown, or said with `process.exitCode`. */
  readonly run: (settings: Settings, say: (line: string) => void, argument?: string) => Promise<void>;
}

export const defaultCommand = 'serve';

/** The command that is meant, what is said after it, and the flags. */
export function commandOf(
  argv: readonly string[],
  commands: readonly Command[],
): { command: Command; argument?: string; flags: string[] } {
  const firstFlag = argv.findIndex((argument) => argument.startsWith('-'));
  const words = argv.slice(0, firstFlag < 0 ? argv.length : firstFlag);
  const flags = argv.slice(words.length);
  const name = words.join(' ') || defaultCommand;
  const command = commands.find((one) => one.name === name && one.argument === undefined);
  if (command) return { command, flags };
  const called = commands.find((one) => one.argument !== undefined && one.name === words.slice(0, -1).join(' '));
  if (called) return { command: called, argument: words.at(-1) as string, flags };
  const needy = commands.find((one) => one.name === name);
  if (needy) throw new SettingsError(`${needy.name} needs a ${needy.argument}, before the flags (see --help)`);
  const names = commands.map((one) => one.name).join(', ');
  throw new SettingsError(`${JSON.stringify(name)} is not a command; there is: ${names} (see --help)`);
}
