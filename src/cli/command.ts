// What a command of `tabularium` is, and which is meant by the words before the flags. Those that there are is commands.ts; a flag
// that belongs to one command says so in settings_table.ts.
import { type Settings, SettingsError } from '../settings.ts';

export interface Command {
  /** The words that call it. */
  readonly name: string;
  /** One sentence, for `--help`. */
  readonly doc: string;
  /** `say` writes a line for people to the standard output. What went wrong is thrown, or said with `process.exitCode`. */
  readonly run: (settings: Settings, say: (line: string) => void) => Promise<void>;
}

export const defaultCommand = 'serve';

/** The command that is meant, and the flags after it. */
export function commandOf(
  argv: readonly string[],
  commands: readonly Command[],
): { command: Command; flags: string[] } {
  const firstFlag = argv.findIndex((argument) => argument.startsWith('-'));
  const words = argv.slice(0, firstFlag < 0 ? argv.length : firstFlag);
  const name = words.join(' ') || defaultCommand;
  const command = commands.find((one) => one.name === name);
  if (!command) {
    const names = commands.map((one) => one.name).join(', ');
    throw new SettingsError(`${JSON.stringify(name)} is not a command; there is: ${names} (see --help)`);
  }
  return { command, flags: argv.slice(words.length) };
}
