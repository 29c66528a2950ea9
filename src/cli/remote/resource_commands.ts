// One command for each category, and in it one for each of its operations: `tabularium tables create orders --database shop`. Everything in
// them follows from the declarations in src/api: names, options, help and examples.
import { Argument, Command, Option } from 'commander';
import { categoriesApi } from '../../api/categories.ts';
import type { DeclaredCategory, DeclaredEndpoint } from '../../api/declare.ts';
import { databasesApi } from '../../api/namespaces/databases.ts';
import { tablesApi } from '../../api/tables/tables.ts';
import { camelCase } from '../../standard/camel_case.ts';
import { acceptsExpectedVersion, isPaged, nameFieldOf } from '../../standard/endpoint.ts';
import type { TObject } from '../../standard/type.ts';
import { addCallOptions, type CallOptions, type Runtime } from './call_options.ts';
import { namesIn } from './dotted_name.ts';
import { commandName, exampleLine } from './examples.ts';
import { CommandError } from './exit_codes.ts';
import { addFieldOptions, bodyOf, countFrom, textOfFile } from './field_options.ts';
import { type Fields, recordText, recordWriter } from './output/records.ts';
import { type RowFormat, rowFormats } from './output/row_formats.ts';
import { exactJson } from './output/value_text.ts';
import { runCall } from './run_call.ts';

/** The categories of one name: most are alone, `grants` are of users and of roles. */
export interface ResourceCommand {
  readonly name: string;
  readonly variants: readonly DeclaredCategory[];
}

export function resourceCommands(): readonly ResourceCommand[] {
  const byName = Map.groupBy<string, DeclaredCategory>(categoriesApi, ({ name }) => name);
  return [...byName].map(([name, variants]) => ({ name, variants }));
}

/** From the top, without the category itself. */
export function ancestorsOf(category: DeclaredCategory): readonly DeclaredCategory[] {
  const { parent } = category;
  return parent ? [...ancestorsOf(parent), parent] : [];
}

export const idFieldOf = ({ idField = 'name' }: DeclaredCategory): string => idField;

export function resourceCommand({ name, variants }: ResourceCommand, runtime: Runtime): Command {
  const [first] = variants as [DeclaredCategory];
  const command = new Command(commandName(name)).description(first.doc);
  const operations = new Map<string, DeclaredCategory[]>();
  for (const variant of variants)
    for (const operation of Object.keys(variant.endpoints))
      operations.set(operation, [...(operations.get(operation) ?? []), variant]);
  for (const [operation, of] of operations) command.addCommand(operationCommand(operation, of, runtime));
  return command;
}

function operationCommand(operation: string, variants: readonly DeclaredCategory[], runtime: Runtime): Command {
  const [category] = variants as [DeclaredCategory];
  const endpoint = category.endpoints[operation] as DeclaredEndpoint;
  const command = new Command(commandName(operation)).description(endpoint.summary);
  const isNamed = endpoint.on === 'object' || (endpoint.verb === 'create' && endpoint.named !== false);
  if (isNamed) command.addArgument(nameArgument(category, endpoint));
  addAncestorOptions(command, variants);
  addCallOptions(command, endpoint);
  if (isPaged(endpoint)) {
    command.addOption(new Option('--format <format>', 'the format of the list').choices([...rowFormats]));
    command.addOption(new Option('--limit <count>', 'show at most this many').argParser(countFrom(1)));
  }
  const omitted = new Set(['pageToken', ...(endpoint.verb === 'create' ? [nameFieldOf(endpoint)] : [])]);
  if (acceptsExpectedVersion(endpoint))
    command.addOption(
      new Option('--expected-version <integer>', 'only if the record still has this version').argParser(countFrom(0)),
    );
  if (endpoint.body) command.option('--body <json>', 'the fields as JSON: text, @file, or - for the standard input');
  const textField = Object.values(endpoint.textBodies ?? {})[0];
  if (textField !== undefined)
    command.option('--file <path>', `a file with the field ${textField}; - for the standard input`);
  const fields = endpoint.body
    ? addFieldOptions(command, endpoint.body, omitted)
    : endpoint.query
      ? addFieldOptions(command, endpoint.query, new Set(['pageToken']))
      : () => ({});
  command.addHelpText('after', `\nExample:\n  ${exampleLine(category, operation)}`);
  return command.action(async (...given: unknown[]) => {
    const options = command.opts<CallOptions & Fields>();
    const named = isNamed ? (given[0] as string | undefined) : undefined;
    const text =
      textField !== undefined && typeof options.file === 'string' ? { [textField]: textOfFile(options.file) } : {};
    const version = options.expectedVersion === undefined ? {} : { expectedVersion: options.expectedVersion };
    const body = { ...bodyOf(options.body as string | undefined), ...text, ...fields(options), ...version };
    const variant = variantOf(variants, options);
    await run(
      {
        category: variant,
        operation,
        endpoint: variant.endpoints[operation] as DeclaredEndpoint,
        named,
        body,
        options,
      },
      runtime,
    );
  });
}

function nameArgument(category: DeclaredCategory, { verb, nameOptional, textBodies }: DeclaredEndpoint): Argument {
  const isOptional = verb === 'create' && (nameOptional === true || textBodies !== undefined);
  const path = [...ancestorsOf(category), category].map(({ singular }) => singular).join('.');
  const hint = category.parent ? `, or ${path} with dots` : '';
  return new Argument(
    isOptional ? '[name]' : '<name>',
    `the ${idFieldOf(category)} of the ${category.singular}${hint}`,
  );
}

/** Without the dashes before it. */
const flagOfObject = (singular: string): string => singular.replaceAll('_', '-');

/** As in `sql`, `load` and `export`; by category. */
const shortFlags: Readonly<Record<string, string>> = { [databasesApi.name]: '-d, ', [tablesApi.name]: '-t, ' };

/** An option for each object above: its flag is the singular of the category. */
function addAncestorOptions(command: Command, variants: readonly DeclaredCategory[]): void {
  const all = new Map(variants.flatMap((variant) => ancestorsOf(variant).map((each) => [each.name, each] as const)));
  for (const { singular, name } of all.values()) {
    const child = variants
      .flatMap((variant) => [...ancestorsOf(variant), variant])
      .find((each) => each.parent?.name === name);
    const text = child?.parentDefault === undefined ? '' : ` (default: ${child.parentDefault})`;
    const short = shortFlags[name] ?? '';
    command.option(`${short}--${flagOfObject(singular)} <name>`, `the ${singular}${text}`);
  }
}

const ancestorAttribute = ({ singular }: DeclaredCategory): string => camelCase(singular);

/** Of categories of one name, the one whose parent is given. Throws CommandError. */
function variantOf(variants: readonly DeclaredCategory[], options: Fields): DeclaredCategory {
  const [first] = variants as [DeclaredCategory];
  if (variants.length === 1) return first;
  const given = variants.filter(({ parent }) => parent && options[ancestorAttribute(parent)] !== undefined);
  if (given.length === 1) return given[0] as DeclaredCategory;
  const flags = variants.map(({ parent }) => `--${flagOfObject(parent?.singular ?? '')}`).join(' or ');
  throw new CommandError('usage', `give one of ${flags}`);
}

export interface OperationCall {
  readonly category: DeclaredCategory;
  readonly operation: string;
  readonly endpoint: DeclaredEndpoint;
  readonly named: string | undefined;
  readonly body: Record<string, unknown>;
  readonly options: CallOptions & Fields;
}

async function run(call: OperationCall, runtime: Runtime): Promise<void> {
  const { category, endpoint, options, body } = call;
  const { path, name } = pathOf(call);
  const connection = runtime.connect(options);
  const output = runtime.output(options);
  const fields = name !== undefined && endpoint.verb === 'create' ? { ...body, [nameFieldOf(endpoint)]: name } : body;
  const request = { category, endpoint, path, fields, options };
  if (isPaged(endpoint)) {
    const format: RowFormat = options.json ? 'json' : ((options.format as RowFormat | undefined) ?? 'table');
    const record = (endpoint.item ?? category.record) as TObject;
    const writer = recordWriter(record, format, output.isTerminal ? { width: output.columns } : {});
    const limit = Number(options.limit ?? Number.POSITIVE_INFINITY);
    let count = 0;
    for await (const page of runCall(request, connection, runtime).pages()) {
      const records = page.slice(0, limit - count);
      count += records.length;
      await output.write(writer.records(records));
      if (count >= limit) break;
    }
    return output.write(writer.end(count));
  }
  const result = await runCall(request, connection, runtime).result();
  await output.write(options.json ? `${exactJson(result, 2)}\n` : recordText(result));
}

/** Throws CommandError for what is no name, such as that of a variable of the shell that is not set. */
export function requireName(text: string, what: string): void {
  if (text === '')
    throw new CommandError('usage', `${what} is empty: give it, or set the variable that should contain it`);
  if (text === '.' || text === '..')
    throw new CommandError('usage', `${what} must not be ${JSON.stringify(text)}: give the one that a list shows`);
}

/** The path of the collection or object, and its name. Throws CommandError if an object above is not given. */
function pathOf({ category, operation, endpoint, named, options }: OperationCall): {
  path: string;
  name: string | undefined;
} {
  const ancestors = ancestorsOf(category);
  const own = `the ${idFieldOf(category)} of the ${category.singular}`;
  if (named !== undefined) requireName(named, own);
  const isFull = named !== undefined && ancestors.every((each) => options[ancestorAttribute(each)] === undefined);
  const [name, ...above] = named === undefined ? [] : isFull && ancestors.length > 0 ? namesIn(named) : [named];
  if (above.length > ancestors.length)
    throw new CommandError(
      'usage',
      `${JSON.stringify(named)} has more parts than a ${category.singular} has; quote a part with a dot in it`,
    );
  const segments = ancestors.map((each, i) => {
    const below = ancestors[i + 1] ?? category;
    const given = options[ancestorAttribute(each)] ?? above[ancestors.length - 1 - i] ?? below.parentDefault;
    if (typeof given !== 'string')
      throw new CommandError('usage', `give the ${each.singular}: --${flagOfObject(each.singular)} NAME`);
    requireName(given, `the name of the ${each.singular}`);
    return `${each.name}/${encodeURIComponent(given)}`;
  });
  if (name !== undefined) requireName(name, own);
  const last =
    endpoint.on === 'object' && name !== undefined ? `${category.name}/${encodeURIComponent(name)}` : category.name;
  const action = endpoint.verb === 'action' ? [endpoint.action ?? operation] : [];
  return { path: `/api/v2/${[...segments, last, ...action].join('/')}`, name };
}
