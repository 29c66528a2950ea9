// The commands that run on the machine of the server, as the parser of the others knows commands: for help, completion and documentation.
// They are run by main.ts, which reads their flags as settings.
import { Argument, Command, Option } from 'commander';
import { type SettingName, sections, settingNames, settingOf } from '../../settings/server_settings.ts';
import { flagOf, valueText, variableOf } from '../../settings/setting_type.ts';
import type { Command as LocalCommand } from '../command.ts';

const localGroup = 'Commands on the machine of the server:';

const plain = (doc: string): string => doc.replaceAll('`', '');

/** Those of its declaration in the order of the table; a flag that is for this command alone is one of them. */
function settingsOf({ name, settings: explained }: LocalCommand): readonly SettingName[] {
  const isOwn = (each: SettingName) => [settingOf(each).command ?? []].flat().includes(name);
  const isServers = (each: SettingName) =>
    settingOf(each).command === undefined && !['Commands', 'Other'].includes(settingOf(each).section);
  return settingNames.filter(
    (each) => isOwn(each) || (explained === 'all' ? isServers(each) : explained.includes(each)),
  );
}

function optionOf(name: SettingName): Option {
  const setting = settingOf(name);
  const flag = flagOf(name);
  const word = setting.type === 'enum' ? 'word' : setting.type;
  // Of several commands, the text says what the flag is for each.
  const option = new Option(setting.type === 'boolean' ? flag : `${flag} <${word}>`, plain(setting.doc));
  if (setting.type === 'enum') option.choices([...setting.values]);
  if (setting.type !== 'boolean' && setting.default !== '') option.default(valueText(setting, setting.default));
  return option;
}

const argumentDocs: Readonly<Record<string, string>> = {
  target: 'a directory, or s3://bucket/prefix',
};

function describedCommand(local: LocalCommand): Command {
  const command = new Command(local.name.split(' ').at(-1)).description(plain(local.doc));
  if (local.argument !== undefined)
    command.addArgument(new Argument(`<${local.argument}>`, argumentDocs[local.argument] ?? ''));
  const shown = settingsOf(local);
  for (const section of sections)
    for (const name of shown) {
      if (settingOf(name).section !== section || settingOf(name).only === 'variable') continue;
      const option = optionOf(name);
      command.addOption(section === 'Commands' ? option : option.helpGroup(`${section}:`));
    }
  const variables = shown.filter((name) => settingOf(name).only === 'variable');
  const variableLines = variables.map((name) => `  ${variableOf(name)}  ${plain(settingOf(name).doc)}`);
  if (variableLines.length > 0) command.addHelpText('after', `\nVariables:\n${variableLines.join('\n')}`);
  command.addHelpText(
    'after',
    '\nA setting is a flag, an environment variable (TABULARIUM_DATA_DIR for --data-dir) or a key of the configuration file\n(dataDir); the first of them that is set applies. The settings of serve are accepted, too.',
  );
  const { examples } = local;
  command.addHelpText('after', `\nExample${examples.length === 1 ? '' : 's'}:\n  ${examples.join('\n  ')}`);
  return command;
}

/** One for each first word: `backup` has `verify` and `server`. */
export function localHelp(commands: readonly LocalCommand[]): readonly Command[] {
  const byWord = Map.groupBy(commands, ({ name }) => name.split(' ', 1)[0] as string);
  return [...byWord].map(([word, of]) => {
    const [only] = of as [LocalCommand];
    if (of.length === 1 && only.name === word) return describedCommand(only).helpGroup(localGroup);
    const docs = of.map(({ doc }) => plain(doc).replace(/[.:,] .*|\.$/s, ''));
    const [first = '', ...others] = docs;
    const text = [first, ...others.map((doc) => doc.charAt(0).toLowerCase() + doc.slice(1))].join('; ');
    const parent = new Command(word).description(`${text}.`);
    for (const each of of) parent.addCommand(describedCommand(each));
    return parent.helpGroup(localGroup);
  });
}
