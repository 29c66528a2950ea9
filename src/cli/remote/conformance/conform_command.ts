// `conform`: holds a running service against the REST standard. Any service: what it knows about collections comes from the OpenAPI document or
// from the options.
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { fieldsOf, isObject } from '../../../conformance/document/nodes.ts';
import { isOpenApi } from '../../../conformance/document/openapi.ts';
import { CallError, Calls, type Service } from '../../../conformance/live/calls.ts';
import { liveRules } from '../../../conformance/live/rules.ts';
import { LeftObjectsError, type LiveResult, runLive } from '../../../conformance/live/run.ts';
import { type DescribedSubject, subjectsOf } from '../../../conformance/live/subjects.ts';
import { findingCount, type ReportFormat, rendered } from '../../../conformance/report/report.ts';
import { readOperatorFile } from '../../../operator/operator_file.ts';
import type { Runtime } from '../call_options.ts';
import { locationOf } from '../connection.ts';
import { CommandError, exitCodes } from '../exit_codes.ts';
import type { Environment } from '../profiles.ts';
import { addReportOptions, formatOf, selectedRules } from './openapi_command.ts';

interface ConformOptions {
  readonly format: ReportFormat;
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly only?: readonly string[];
  readonly skip?: readonly string[];
  readonly document?: string;
  readonly profile?: string;
  readonly tokenFile?: string;
  readonly authorizationFile?: string;
  readonly namespace?: string;
  readonly collection?: readonly string[];
  readonly create?: string;
  readonly update?: string;
  readonly timeout: string;
}

const namespaceForm = /^[A-Za-z]\w{0,39}$/;
const taskTimeoutMs = 60_000;
const discoveredDocument = '/openapi.json';

export function conformCommand(runtime: Runtime, env: Environment): Command {
  const command = new Command('conform').description(
    'Exercises a running service and reports which rules of the REST standard it keeps. Without --namespace it only reads. The exit code is 6 if a rule is broken.',
  );
  command
    .argument('<base-url>', 'the URL of the service, below which its paths begin with /api/')
    .option('--document <file|url>', `its OpenAPI document; by default that at ${discoveredDocument}, if there is one`)
    .option('--profile <name>', 'the profile whose token is sent (tabularium login)')
    .option('--token-file <path>', 'a file with a token, sent as Authorization: Bearer')
    .option('--authorization-file <path>', 'a file with the whole value of the Authorization header')
    .option('--namespace <name>', 'create objects whose names begin with this, and delete them at the end')
    .option('--collection <paths...>', 'collections in which to create, such as /api/v2/databases')
    .option('--create <json>', 'the body of a creation there, {name} being replaced; by default {"name": "{name}"}')
    .option('--update <json>', 'a change of one field, such as {"comment": "x"}; by default from the document')
    .option('--timeout <seconds>', 'the time for one call', '30');
  addReportOptions(command)
    .option('--json', 'the same as --format json')
    .option('--quiet', 'write no progress and no notes')
    .addHelpText(
      'after',
      '\nExamples:\n  tabularium conform http://127.0.0.1:8030 --namespace conform\n  tabularium conform https://api.example.com --document openapi.yaml --token-file token --format junit > conform.xml\n  tabularium conform https://api.example.com --collection /api/v1/boxes --create \'{"name": "{name}", "size": 3}\' --namespace ci',
    );
  return command.action((baseUrl: string) => conform(baseUrl, command.opts<ConformOptions>(), runtime, env));
}

async function conform(baseUrl: string, options: ConformOptions, runtime: Runtime, env: Environment): Promise<void> {
  const selected = new Set(selectedRules(Object.values(liveRules), options, 'docs/conform.md').map(({ id }) => id));
  const described = describedSubjects(options);
  if (options.namespace !== undefined && !namespaceForm.test(options.namespace))
    throw new CommandError('usage', '--namespace is a letter and at most 39 further letters, digits and underscores');
  const service = serviceOf(baseUrl, options, env);
  const output = runtime.output(options);
  const document = await documentOf(service, options, runtime.signal, described.length > 0);
  const subjects = subjectsOf(document, described);
  if (subjects.reads.length === 0)
    throw new CommandError(
      'failed',
      'the document has no collection that can be read without a parameter in its path; name one with --collection',
    );
  if (options.namespace === undefined)
    output.note('nothing is created: give --namespace to check creations, changes and deletions too');
  else if (subjects.subjects.length === 0)
    output.note(
      'the document has no collection in which an object can be created by a name alone: describe one with --collection and --create',
    );
  const progress = (text: string) => {
    if (output.isInteractive) output.note(text);
  };
  const { report, left } = await ran(
    { service, subjects, namespace: options.namespace, taskTimeoutMs, signal: runtime.signal, progress },
    output.note,
  );
  const shown = { ...report, rules: report.rules.filter(({ id }) => selected.has(id)) };
  await output.write(rendered(shown, formatOf(options)));
  for (const path of left) output.note(leftText(path));
  if (findingCount(shown) > 0) process.exitCode = exitCodes.differs.code;
  else if (left.length > 0) process.exitCode = exitCodes.failed.code;
}

const leftText = (path: string): string => `${path} could not be deleted: delete it`;

async function ran(run: Parameters<typeof runLive>[0], note: (text: string) => void): Promise<LiveResult> {
  try {
    return await runLive(run);
  } catch (error) {
    if (error instanceof LeftObjectsError) for (const path of error.left) note(leftText(path));
    const cause = error instanceof LeftObjectsError ? error.cause : error;
    if (cause instanceof CallError)
      throw new CommandError('unavailable', `${cause.message}; check the URL and the service`, { cause });
    throw cause;
  }
}

function serviceOf(baseUrl: string, options: ConformOptions, env: Environment): Service {
  const { profile, tokenFile, authorizationFile, timeout } = options;
  const seconds = Number(timeout);
  if (!(seconds > 0 && seconds <= 600)) throw new CommandError('usage', '--timeout is a number of seconds up to 600');
  const { url, token } = locationOf({ profile, tokenFile, url: baseUrl }, env);
  const given = authorizationFile === undefined ? undefined : authorizationIn(authorizationFile);
  const authorization = given ?? (token === undefined ? undefined : `Bearer ${token}`);
  return { baseUrl: url, authorization, callTimeoutMs: seconds * 1000 };
}

function authorizationIn(path: string): string {
  const bytes = readOperatorFile({ path, what: 'the credentials', advice: 'give another --authorization-file' });
  if (bytes === undefined) throw new CommandError('usage', `the file of the credentials, ${path}, does not exist`);
  return bytes.toString().trim();
}

/** Undefined: the service has no document, and the options say what to exercise. */
async function documentOf(
  service: Service,
  { document }: ConformOptions,
  signal: AbortSignal,
  isDescribed: boolean,
): Promise<unknown> {
  if (document !== undefined) {
    const { readDocument } = await import('./document_source.ts');
    return (await readDocument(document, signal)).value;
  }
  const exchange = await new Calls(service, signal)
    .send({ method: 'GET', path: discoveredDocument })
    .catch((error: unknown) => {
      if (error instanceof CallError)
        throw new CommandError('unavailable', `${error.message}; check the URL and the service`, { cause: error });
      throw error;
    });
  if (isOpenApi(exchange.json)) return exchange.json;
  if (isDescribed) return undefined;
  throw new CommandError(
    'usage',
    `the service has no OpenAPI document at ${discoveredDocument}: give --document, or --collection with the path of one`,
  );
}

function describedSubjects({ collection = [], create, update }: ConformOptions): DescribedSubject[] {
  if (collection.length === 0 && (create !== undefined || update !== undefined))
    throw new CommandError('usage', '--create and --update need --collection');
  const body = create === undefined ? { name: '{name}' } : jsonObject(create, '--create');
  if (!JSON.stringify(body).includes('{name}'))
    throw new CommandError('usage', '--create needs the text {name} where the name of the object goes');
  const change = update === undefined ? undefined : jsonObject(update, '--update');
  return collection.map((path) => {
    if (!/^\/api\/v\d+\/[^?#]*[^/?#]$/.test(path))
      throw new CommandError(
        'usage',
        `${JSON.stringify(path)} is not the path of a collection, such as /api/v2/databases`,
      );
    return { collection: path, create: body, update: change };
  });
}

/** JSON, or a file of it after `@`. */
function jsonObject(text: string, option: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text.startsWith('@') ? readFileSync(text.slice(1), 'utf8') : text);
    if (isObject(value)) return fieldsOf(value);
  } catch (error) {
    throw new CommandError('usage', `${option} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  throw new CommandError('usage', `${option} is a JSON object`);
}
