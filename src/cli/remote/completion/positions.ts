// What may follow each sequence of words of the command line, read from the commands themselves.
import type { Argument, Command, Option } from 'commander';

/** What a value is: one of these words, a file, the name of a profile, or something that cannot be known. */
export type Values = readonly string[] | 'files' | 'profiles' | 'unknown';

export interface Position {
  /** The words so far, joined by spaces; empty at the beginning. */
  readonly after: string;
  readonly words: readonly { readonly word: string; readonly doc: string }[];
  /** Of the options that take a value, with all their spellings. */
  readonly options: readonly { readonly flags: readonly string[]; readonly values: Values }[];
  readonly argument: Values;
}

const docCharactersMax = 80;

/** A sentence in one line without what a shell would interpret. */
const docOf = (text: string): string =>
  text
    .replaceAll(/["'`$\\:[\]]/g, '')
    .split('\n')[0]
    ?.slice(0, docCharactersMax)
    .trim() ?? '';

const filePlaceholder = /<(?:path|file(?:\|url)?)>/;

function valuesOfOption({ flags, long, argChoices }: Option): Values {
  if (argChoices) return argChoices;
  if (long === '--profile') return 'profiles';
  return filePlaceholder.test(flags) ? 'files' : 'unknown';
}

const fileArguments = new Set(['files', 'file', 'path', 'document', 'target']);

function valuesOfArgument(command: Command, argument: Argument | undefined): Values {
  if (!argument) return 'unknown';
  if (argument.argChoices) return argument.argChoices;
  if (command.name() === 'profiles') return 'profiles';
  return fileArguments.has(argument.name()) ? 'files' : 'unknown';
}

export function positionsOf(program: Command): readonly Position[] {
  const positions: Position[] = [];
  const walk = (command: Command, after: string) => {
    const shown = command.options.filter(({ hidden }) => !hidden);
    const words = shown.flatMap(({ long, description }) => (long ? [{ word: long, doc: docOf(description) }] : []));
    const commands = command.commands.map((each) => ({ word: each.name(), doc: docOf(each.description()) }));
    const options = shown
      .filter(({ required, optional }) => required || optional)
      .map((option) => ({
        flags: [option.long, option.short].filter((flag) => flag !== undefined),
        values: valuesOfOption(option),
      }));
    const argument = valuesOfArgument(command, command.registeredArguments[0]);
    positions.push({
      after,
      words: [...commands, ...words, { word: '--help', doc: 'show this help' }],
      options,
      argument,
    });
    for (const each of command.commands) walk(each, after === '' ? each.name() : `${after} ${each.name()}`);
  };
  walk(program, '');
  return positions;
}
