// `apply`: brings a server to the state that files declare.
import { Command } from 'commander';
import { addServerOptions, type Runtime } from '../remote/call_options.ts';
import type { ApplyOptions } from './apply.ts';

export function applyCommand(runtime: Runtime): Command {
  const command = new Command('apply').description(
    'Creates and changes catalogs, databases, tables, views, roles, grants and schedules until they are as YAML and SQL files declare them. Shows the plan and asks first; what is as declared is left alone.',
  );
  command.argument('<path>', 'a directory with .yaml, .yml and .sql files, or one such file');
  addServerOptions(command)
    .option('--dry-run', 'only show the plan; the exit code is 6 if something would change')
    .option('--prune', 'drop what the declared databases, tables and roles have and the files do not declare')
    .option('-y, --yes', 'carry out the plan without asking')
    .addHelpText(
      'after',
      '\nExamples:\n  tabularium apply warehouse --dry-run\n  tabularium apply warehouse --yes\n  tabularium apply warehouse --prune --yes --json',
    );
  return command.action(async (path: string) => {
    const { apply } = await import('./apply.ts');
    return apply(path, command.opts<ApplyOptions>(), runtime);
  });
}
