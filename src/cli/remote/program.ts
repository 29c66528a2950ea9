// The commands that call a server: the words of the command line, and what they run. main.ts loads this only for such a command, so that a
// server starts without it.
import { setFlagsFromString } from 'node:v8';
import { Command, CommanderError } from 'commander';
import { release } from '../../model/release.ts';
import { applyCommand } from '../apply/apply_command.ts';
import { describedLocally } from '../commands.ts';
import { exitCodes } from '../exit_codes.ts';
import { onOutputLost } from '../standard_streams.ts';
import type { Runtime } from './call_options.ts';
import { completionCommand } from './completion/completion.ts';
import { conformCommand } from './conformance/conform_command.ts';
import { openapiCommand } from './conformance/openapi_command.ts';
import { connect } from './connection.ts';
import { shownFailure } from './exit_codes.ts';
import { type FileSource, importCommand } from './import/import_command.ts';
import { localHelp } from './local_help.ts';
import { loginCommands } from './login.ts';
import { standardOutput } from './output/output.ts';
import { exactJson } from './output/value_text.ts';
import type { Environment } from './profiles.ts';
import { resourceCommand, resourceCommands } from './resource_commands.ts';
import { sqlCommand } from './sql/sql_command.ts';
import { stopOnSignals } from './stop_signals.ts';
import { exportCommand } from './transfer/export_command.ts';
import { loadCommand } from './transfer/load_command.ts';
import { watchCommand } from './watch.ts';

const callingGroup = 'Commands that call a server:';
const categoriesGroup = 'One command for each category of the API, with one for each of its actions:';
const otherGroup = 'Other commands:';

/** The first sentence, for a list of commands. */
const shortOf = (text: string): string => /^.*?[.](?= |$)/s.exec(text)?.[0] ?? text;

const exitCodeText = Object.values(exitCodes)
  .map(({ code, meaning }) => `  ${String(code).padStart(3)}  ${meaning}`)
  .join('\n');

/** All commands. Those that run on the machine of the server have only help here. */
export function newProgram(env: Environment, runtime: Runtime, fileSources: readonly FileSource[] = []): Command {
  const program = new Command('tabularium')
    .description(
      'Starts a Tabularium server, maintains its data, and runs commands on one. "tabularium COMMAND --help" shows the options of a command and examples. Without a command it is "tabularium serve".',
    )
    .version(release)
    .showSuggestionAfterError()
    .showHelpAfterError('tabularium --help lists the commands')
    .helpOption('-h, --help', 'show this help')
    .addHelpText('after', `\nExit codes:\n${exitCodeText}`);
  for (const command of localHelp(describedLocally())) program.addCommand(command);
  const own = [
    sqlCommand(runtime),
    loadCommand(runtime),
    exportCommand(runtime),
    applyCommand(runtime),
    importCommand(runtime, fileSources),
    ...loginCommands(runtime, env),
  ];
  for (const command of own) program.addCommand(command.helpGroup(callingGroup));
  for (const resource of resourceCommands()) {
    const command = resourceCommand(resource, runtime);
    if (resource.name === 'tasks') command.addCommand(watchCommand(runtime));
    program.addCommand(command.helpGroup(categoriesGroup));
  }
  program.helpCommand(false);
  for (const command of [openapiCommand(runtime), conformCommand(runtime, env), completionCommand(program, runtime)])
    program.addCommand(command.helpGroup(otherGroup));
  for (const command of allCommands(program)) {
    if (command !== program) command.summary(shortOf(command.description()));
    if (command.commands.length === 0)
      command
        .helpOption('-h, --help', 'show this help')
        .addHelpText('after', '\nExit codes: "tabularium --help" lists them.');
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
  const program = newProgram(env, runtime, fileSources);
  const isJson = argv.includes('--json');
  for (const command of allCommands(program)) {
    command.exitOverride();
    if (isJson) command.configureOutput({ outputError: () => undefined });
  }
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return stopping.exitCode() ?? Number(process.exitCode ?? exitCodes.succeeded.code);
  } catch (error) {
    return stopping.exitCode() ?? reported(error, isJson);
  } finally {
    stopping.end();
  }
}

/** A command and those below it. */
export const allCommands = (command: Command): readonly Command[] => [
  command,
  ...command.commands.flatMap(allCommands),
];

/** Writes a failure to the standard error. @returns the exit code. Throws what is a defect. */
function reported(error: unknown, isJson: boolean): number {
  // The parser has written its message, or the help that was asked for.
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return exitCodes.succeeded.code;
    const record = { code: 'COMMAND_FAILED', message: error.message.replace(/^error: /, ''), result: {} };
    if (isJson) process.stderr.write(`${exactJson(record)}\n`);
    return exitCodes.usage.code;
  }
  const shown = shownFailure(error);
  if (!shown) throw error;
  process.stderr.write(`${isJson ? exactJson(shown.record) : shown.message}\n`);
  return shown.exitCode;
}
