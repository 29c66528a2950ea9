// The commands that call a server: the words of the command line, and what they run. main.ts loads this only for such a command, so that a
// server starts without it; a command is loaded only for a command line that names it, for help and for completion.
import { setFlagsFromString } from 'node:v8';
import { Command, CommanderError } from 'commander';
import { release } from '../../model/release.ts';
import { exitCodes } from '../exit_codes.ts';
import { onOutputLost } from '../standard_streams.ts';
import type { Runtime } from './call_options.ts';
import { NotCancelled } from './cancelling.ts';
import { connect } from './connection.ts';
import { shownFailure } from './exit_codes.ts';
import type { FileSource } from './import/import_command.ts';
import { standardOutput } from './output/output.ts';
import { exactJson } from './output/value_text.ts';
import type { Environment } from './profiles.ts';
import { stopOnSignals } from './stop_signals.ts';

const callingGroup = 'Commands that call a server:';
const categoriesGroup = 'One command for each category of the API, with one for each of its actions:';
const otherGroup = 'Other commands:';

/** The first sentence, for a list of commands. */
const shortOf = (text: string): string => /^.*?[.](?= |$)/s.exec(text)?.[0] ?? text;

const exitCodeText = Object.values(exitCodes)
  .map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`)
  .join('\n');

interface CommandParts {
  readonly env: Environment;
  readonly runtime: Runtime;
  /** Of `import`. */
  readonly fileSources: readonly FileSource[];
  /** With all commands. */
  readonly whole: () => Promise<Command>;
}

type LoadCommand = (parts: CommandParts) => Promise<Command>;

const callingCommands: Readonly<Record<string, LoadCommand>> = {
  sql: async ({ runtime }) => (await import('./sql/sql_command.ts')).sqlCommand(runtime),
  load: async ({ runtime }) => (await import('./transfer/load_command.ts')).loadCommand(runtime),
  export: async ({ runtime }) => (await import('./transfer/export_command.ts')).exportCommand(runtime),
  apply: async ({ runtime }) => (await import('../apply/apply_command.ts')).applyCommand(runtime),
  import: async ({ runtime, fileSources }) =>
    (await import('./import/import_command.ts')).importCommand(runtime, fileSources),
  login: async ({ runtime, env }) => (await import('./login.ts')).loginCommand(runtime, env),
  logout: async ({ runtime, env }) => (await import('./login.ts')).logoutCommand(runtime, env),
  profiles: async ({ runtime, env }) => (await import('./login.ts')).profilesCommand(runtime, env),
};

const otherCommands: Readonly<Record<string, LoadCommand>> = {
  openapi: async ({ runtime }) => (await import('./conformance/openapi_command.ts')).openapiCommand(runtime),
  conform: async ({ runtime, env }) => (await import('./conformance/conform_command.ts')).conformCommand(runtime, env),
  completion: async ({ runtime, whole }) =>
    (await import('./completion/completion.ts')).completionCommand(whole, runtime),
};

/** Those of the category of the first word, or of all categories. */
async function categoryCommands({ runtime }: CommandParts, firstWord: string): Promise<readonly Command[]> {
  const { commandName } = await import('./examples.ts');
  const { resourceCommand, resourceCommands } = await import('./resource_commands.ts');
  const { watchCommand } = await import('./watch.ts');
  const all = resourceCommands();
  const named = all.filter(({ name }) => commandName(name) === firstWord);
  return (named.length > 0 ? named : all).map((resource) => {
    const command = resourceCommand(resource, runtime);
    return resource.name === 'tasks' ? command.addCommand(watchCommand(runtime)) : command;
  });
}

async function machineCommands(): Promise<readonly Command[]> {
  const { localHelp } = await import('./local_help.ts');
  const { describedLocally } = await import('../commands.ts');
  return localHelp(describedLocally());
}

function emptyProgram(): Command {
  return new Command('tabularium')
    .description(
      'Starts a Tabularium server, maintains its data, and runs commands on one. "tabularium COMMAND --help" shows the options of a command and examples. Without a command it is "tabularium serve".',
    )
    .version(release)
    .showSuggestionAfterError()
    .showHelpAfterError('tabularium --help lists the commands')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .addHelpText('after', `\nExit codes:\n${exitCodeText}`);
}

/**
 * All commands, or only what the first word of a command line needs. Those that run on the machine of the server have only help here.
 */
export async function newProgram(
  env: Environment,
  runtime: Runtime,
  { fileSources = [], firstWord = '' }: { fileSources?: readonly FileSource[]; firstWord?: string | undefined } = {},
): Promise<Command> {
  const program = emptyProgram();
  const parts = { env, runtime, fileSources, whole: () => newProgram(env, runtime, { fileSources }) };
  const add = async (group: string, commands: Readonly<Record<string, LoadCommand>>) => {
    for (const load of Object.values(commands)) program.addCommand((await load(parts)).helpGroup(group));
  };
  const own = { ...callingCommands, ...otherCommands };
  const load = Object.hasOwn(own, firstWord) ? own[firstWord] : undefined;
  const categories = load ? [] : await categoryCommands(parts, firstWord);
  if (load) program.addCommand(await load(parts));
  else if (categories.length === 1) program.addCommand(categories[0] as Command);
  else {
    for (const command of await machineCommands()) program.addCommand(command);
    await add(callingGroup, callingCommands);
    for (const command of categories) program.addCommand(command.helpGroup(categoriesGroup));
    await add(otherGroup, otherCommands);
  }
  for (const command of allCommands(program)) {
    if (command === program) continue;
    command
      .summary(shortOf(command.description()))
      .helpOption('-h, --help', 'show this help')
      .showHelpAfterError(`"${wordsOf(command)} --help" shows what it accepts, with an example`)
      .showSuggestionAfterError();
    if (command.commands.length > 0) command.helpCommand('help [command]', 'show the help of one of these commands');
    else command.addHelpText('after', '\nExit codes: "tabularium --help" lists them.');
  }
  return program;
}

/** For reading the commands without running them. */
export const unused: Runtime = {
  connect: () => {
    throw new Error('no command is run');
  },
  output: () => standardOutput(),
  signal: new AbortController().signal,
};

/** Runs a command to its end. `fileSources`: of `import`. @returns the exit code. */
export async function runRemote(
  argv: readonly string[],
  env: Environment,
  fileSources: readonly FileSource[],
): Promise<number> {
  // Pages of results are garbage as soon as they are written: by default, the heap grows to several times of what is in use before it is
  // collected.
  setFlagsFromString('--heap-growing-percent=20');
  const stopping = stopOnSignals();
  onOutputLost(stopping.stop);
  const runtime: Runtime = {
    connect: (options) => connect(options, env),
    output: ({ quiet }) => standardOutput({ isQuiet: quiet === true }),
    signal: stopping.signal,
  };
  const program = await newProgram(env, runtime, { fileSources, firstWord: argv[0] });
  const isJson = argv.includes('--json');
  for (const command of allCommands(program)) {
    command.exitOverride();
    if (isJson) command.configureOutput({ outputError: () => undefined });
  }
  let ran: Command | undefined;
  program.hook('preAction', (_, command) => {
    ran = command;
  });
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return stopping.exitCode() ?? Number(process.exitCode ?? exitCodes.succeeded.code);
  } catch (error) {
    // Of a command that was stopped, only that its work may go on is of interest.
    const exitCode = stopping.exitCode();
    if (exitCode === undefined) return await reported(error, isJson, ran);
    if (error instanceof NotCancelled) await reported(error, isJson, ran);
    return exitCode;
  } finally {
    stopping.end();
  }
}

const wordsOf = (command: Command): string =>
  command.parent ? `${wordsOf(command.parent)} ${command.name()}` : command.name();

/** A command and those below it. */
export const allCommands = (command: Command): readonly Command[] => [
  command,
  ...command.commands.flatMap(allCommands),
];

/** Writes a failure of `command` to the standard error. @returns the exit code. Throws what is a defect. */
async function reported(error: unknown, isJson: boolean, command: Command | undefined): Promise<number> {
  // The parser has written its message, or the help that was asked for.
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.succeeded.code;
    const record = { code: 'COMMAND_FAILED', message: error.message.replace(/^error: /, ''), result: {} };
    if (isJson) process.stderr.write(`${exactJson(record)}\n`);
    return exitCodes.usage.code;
  }
  const shown = await shownFailure(error, (flag) => command?.options.some(({ long }) => long === flag) === true);
  if (!shown) throw error;
  process.stderr.write(`${isJson ? exactJson(shown.record) : shown.message}\n`);
  return shown.exitCode;
}
