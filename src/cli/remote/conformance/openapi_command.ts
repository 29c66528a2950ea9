// `openapi lint` and `openapi rules`: hold an OpenAPI document against the REST standard. They call no server but that of the document.
import { Command, Option } from 'commander';
import type { Rule } from '../../../conformance/lint/rule.ts';
import { findingsOf, notesOf, rules, unreadReferences } from '../../../conformance/lint/rules.ts';
import {
  findingCount,
  type Report,
  type ReportFormat,
  rendered,
  reportFormats,
} from '../../../conformance/report/report.ts';
import type { CallOptions, Runtime } from '../call_options.ts';
import { CommandError, exitCodes } from '../exit_codes.ts';
import type { DocumentSource } from './document_source.ts';

interface ReportOptions {
  readonly format: ReportFormat;
  readonly json?: boolean;
}

interface LintOptions extends Pick<CallOptions, 'quiet'>, ReportOptions {
  readonly only?: readonly string[];
  readonly skip?: readonly string[];
}

/** The options of commands that write a report. */
export const addReportOptions = (command: Command): Command =>
  command
    .addOption(new Option('--format <format>', 'the format of the report').choices([...reportFormats]).default('text'))
    .option('--only <rules...>', 'check only these rules')
    .option('--skip <rules...>', 'do not check these rules');

export const formatOf = ({ format, json }: ReportOptions): ReportFormat => (json ? 'json' : format);

/** Throws CommandError for a rule that does not exist. */
export function selectedRules<R extends { readonly id: string }>(
  all: readonly R[],
  { only, skip = [] }: Pick<LintOptions, 'only' | 'skip'>,
  listing: string,
): readonly R[] {
  const ids = new Set(all.map(({ id }) => id));
  for (const id of [...(only ?? []), ...skip])
    if (!ids.has(id)) throw new CommandError('usage', `there is no rule ${JSON.stringify(id)}; ${listing} lists them`);
  return all.filter(({ id }) => (only === undefined || only.includes(id)) && !skip.includes(id));
}

export function openapiCommand(runtime: Runtime): Command {
  const command = new Command('openapi').description('Holds OpenAPI documents against the REST standard.');
  return command.addCommand(lintCommand(runtime)).addCommand(rulesCommand(runtime));
}

function lintCommand(runtime: Runtime): Command {
  const command = new Command('lint').description(
    'Checks an OpenAPI document (3.x, or Swagger 2.0; JSON or YAML) rule by rule. The exit code is 6 if a rule is broken.',
  );
  command.argument('<document>', 'a file, an http or https URL, or - for the standard input');
  addReportOptions(command)
    .option('--json', 'the same as --format json')
    .option('--quiet', 'write no notes')
    .addHelpText(
      'after',
      '\nExamples:\n  tabularium openapi lint openapi.yaml\n  tabularium openapi lint https://warehouse.example.com/openapi.json --format junit > lint.xml\n  tabularium openapi lint - --skip envelope created-uri < openapi.json',
    );
  return command.action(async (source: string) => {
    const options = command.opts<LintOptions>();
    const selected = selectedRules(rules, options, 'tabularium openapi rules');
    const output = runtime.output(options);
    const { readDocument } = await import('./document_source.ts');
    const document = await readDocument(source, runtime.signal);
    const unread = unreadReferences(document.value);
    const report = reportOf(source, document, selected, unread);
    await output.write(rendered(report, formatOf(options)));
    if (unread.length > 0)
      output.note(
        `${unread.length} references lead to other documents, which are not read (${unread.slice(0, 3).join(', ')}${unread.length > 3 ? ', ...' : ''}): bundle them into one document to check them`,
      );
    if (findingCount(report) > 0) process.exitCode = exitCodes.differs.code;
  });
}

function reportOf(
  source: string,
  document: DocumentSource,
  selected: readonly Rule[],
  unread: readonly string[],
): Report {
  return {
    subject: source,
    details: { unreadReferences: unread },
    rules: selected.map((rule) => ({
      id: rule.id,
      title: rule.title,
      clauses: rule.clauses,
      notes: notesOf(rule, document.value),
      findings: findingsOf(rule, document.value).map(({ message, at, pointer }) => {
        const position = document.lineOf(at);
        const place = position ? `${source}:${position.line}:${position.column}` : `${source}${pointer}`;
        return { message, place, details: { pointer, ...position } };
      }),
    })),
  };
}

function rulesCommand(runtime: Runtime): Command {
  const command = new Command('rules').description(
    'Lists the rules of openapi lint. docs/lint_rules.md has examples of each.',
  );
  command
    .option('--json', 'write the rules as JSON')
    .option('--quiet', 'write no notes')
    .addHelpText('after', '\nExamples:\n  tabularium openapi rules\n  tabularium openapi rules --json');
  return command.action(async () => {
    const { json, ...options } = command.opts<Pick<CallOptions, 'json' | 'quiet'>>();
    const width = Math.max(...rules.map(({ id }) => id.length));
    const text = rules.map(({ id, title }) => `${id.padEnd(width)}  ${title}`).join('\n');
    const records = rules.map(({ id, title, doc, clauses, good, bad }) => ({ id, title, doc, clauses, good, bad }));
    await runtime.output(options).write(`${json ? JSON.stringify(records, null, 2) : text}\n`);
  });
}
