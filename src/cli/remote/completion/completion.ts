// `completion`: prints the script that makes bash, zsh or fish complete commands, options and their values.
import { Argument, Command } from 'commander';
import type { Runtime } from '../call_options.ts';
import { positionsOf } from './positions.ts';
import { type Shell, scripts, shells } from './scripts.ts';

/** `program`: with all commands. */
export function completionCommand(program: () => Promise<Command>, runtime: Runtime): Command {
  const command = new Command('completion').description(
    'Prints the script by which a shell completes commands, options, their values and the names of profiles.',
  );
  command.addArgument(new Argument('<shell>', 'the shell').choices([...shells]));
  command.addHelpText(
    'after',
    '\nExamples:\n  source <(tabularium completion bash)\n  tabularium completion zsh > ~/.zfunc/_tabularium\n  tabularium completion fish > ~/.config/fish/completions/tabularium.fish',
  );
  return command.action(async (shell: Shell) => runtime.output({}).write(scripts[shell](positionsOf(await program()))));
}
