// The commands that call a server: the words of the command line, and what they run. main.ts loads this only for such a command, so that a
// server starts without it.
import { Command, CommanderError } from 'commander';
import { release } from '../../model/release.ts';
import { applyCommand } from '../apply/apply_command.ts';
import { onOutputLost } from '../standard_streams.ts';
import type { Runtime } from './call_options.ts';
import { completionCommand } from './completion/completion.ts';
import { conformCommand } from './conformance/conform_command.ts';
import { openapiCommand } from './conformance/openapi_command.ts';
import { connect } from './connection.ts';
import { exitCodes, shownFailure } from './exit_codes.ts';
import { type FileSource, importCommand } from './import/import_command.ts';
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

/** All commands that call a server. */
export function newProgram(env: Environment, runtime: Runtime, fileSources: readonly FileSource[] = []): Command {
  const program = new Command('tabularium')
    .description('Runs commands on a Tabularium server.')
    .version(release)
    .showSuggestionAfterError()
    .showHelpAfterError('tabularium --help lists the commands')
    .helpOption('-h, --help', 'show this help');
  const own = [
    sqlCommand(runtime),
    loadCommand(runtime),
    exportCommand(runtime),
    applyCommand(runtime),
    importCommand(runtime, fileSources),
    ...loginCommands(runtime, env),
  ];
  for (const command of own) program.addCommand(command);
  for (const resource of resourceCommands()) {
    const command = resourceCommand(resource, runtime);
    if (resource.name === 'tasks') command.addCommand(watchCommand(runtime));
    program.addCommand(command);
  }
  program.addCommand(openapiCommand(runtime));
  program.addCommand(conformCommand(runtime, env));
  program.addCommand(completionCommand(program));
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

/** The commands and what they do, for the help of the program. */
export const remoteCommandsHelp = (): readonly { readonly name: string; readonly doc: string }[] =>
  newProgram({}, unused).commands.map((command) => ({
    name: command.name(),
    doc: command.summary() || command.description(),
  }));

/** Runs a command to its end. `fileSources`: of `import`. @returns the exit code. */
export async function runRemote(
  argv: readonly string[],
  env: Environment,
  fileSources: readonly FileSource[],
): Promise<number> {
  const stopping = stopOnSignals();
  onOutputLost(stopping.stop);
  const runtime: Runtime = {
    connect: (options) => connect(options, env),
    output: ({ quiet }) => standardOutput({ isQuiet: quiet === true }),
    signal: stopping.signal,
  };
  const program = newProgram(env, runtime, fileSources);
  for (const command of allCommands(program)) command.exitOverride();
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return stopping.exitCode() ?? Number(process.exitCode ?? exitCodes.succeeded.code);
  } catch (error) {
    return stopping.exitCode() ?? reported(error, argv.includes('--json'));
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
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.succeeded.code : exitCodes.usage.code;
  const shown = shownFailure(error);
  if (!shown) throw error;
  process.stderr.write(`${isJson ? exactJson(shown.record) : shown.message}\n`);
  return shown.exitCode;
}
