// `sql`: runs statements from the command line, a file or a pipe, or interactively on a terminal.
import { Command, Option } from 'commander';
import { statementsOf } from '../../../client/statements.ts';
import { addServerOptions, type Runtime } from '../call_options.ts';
import { CommandError } from '../exit_codes.ts';
import { textOfFile } from '../field_options.ts';
import { rowFormats } from '../output/row_formats.ts';
import { runStatement } from './run_statement.ts';
import type { SqlOptions } from './session_state.ts';

export function sqlCommand(runtime: Runtime): Command {
  const command = new Command('sql').description(
    'Runs SQL: the statements of -c, of a file or of a pipe, one after the other up to the first that fails; otherwise an interactive session.',
  );
  addServerOptions(command)
    .option('-c, --command <sql>', 'run these statements; can be repeated', (text: string, before: string[] = []) => [
      ...before,
      text,
    ])
    .option('-f, --file <path>', 'run the statements of a file; - for the standard input')
    .option('--catalog <name>', 'the catalog of unqualified names', 'default')
    .option('-d, --database <name>', 'the database of unqualified names')
    .option('--warehouse <name>', 'the warehouse that runs the statements; by default that of the catalog')
    .addOption(
      new Option('--format <format>', 'of the rows; by default table on a terminal and csv elsewhere').choices([
        ...rowFormats,
        'arrow',
      ]),
    )
    .option('-o, --output <path>', 'write the rows to this file')
    .option('--timing', 'show how long each statement took')
    .addHelpText(
      'after',
      "\nExamples:\n  tabularium sql -d shop\n  tabularium sql -d shop -c 'SELECT count(*) FROM orders' --format json\n  tabularium sql -d shop --format csv < report.sql > report.csv",
    );
  return command.action(async () => {
    const options = command.opts<SqlOptions>();
    const text = textOf(options);
    if (text === undefined) {
      const { interactiveSession } = await import('./session.ts');
      return interactiveSession(options, runtime);
    }
    const statements = statementsOf(text).map(({ from, to }) => text.slice(from, to));
    if (statements.length === 0) throw new CommandError('usage', 'there is no statement to run');
    const connection = runtime.connect(options);
    for (const sql of statements) await runStatement(sql, { ...options, connection, runtime, signal: runtime.signal });
  });
}

/** Undefined: the session is interactive. */
function textOf({ command, file }: SqlOptions): string | undefined {
  if (command && file !== undefined) throw new CommandError('usage', 'give either --command or --file');
  if (command) return command.join(';\n');
  if (file !== undefined) return textOfFile(file);
  return process.stdin.isTTY && process.stdout.isTTY ? undefined : textOfFile('-');
}
