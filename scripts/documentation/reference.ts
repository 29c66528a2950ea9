// The reference: a page for each category, with its record and its operations, generated from the declarations in src/api. The example
// calls are described by the client, so that they cannot differ from what it sends.
import { curlText } from '../../console/src/forms/curl_text.ts';
import { categoriesApi } from '../../src/api/categories.ts';
import { implementWith } from '../../src/api/implement.ts';
import { taskCodesOf } from '../../src/api/tasks/task_codes.ts';
import { type TaskType, taskResults } from '../../src/api/tasks/task_types.ts';
import { type Client, type DescribedCall, describeCall } from '../../src/client/index.ts';
import { camelCase } from '../../src/standard/camel_case.ts';
import type { Code } from '../../src/standard/codes.ts';
import { type Category, type Endpoint, isPaged, type Permission } from '../../src/standard/endpoint.ts';
import { ownCodesOf } from '../../src/standard/openapi/endpoint_codes.ts';
import { type Operation, operationsOf } from '../../src/standard/openapi/operations.ts';
import { bodyOf, listKeyOf, queryOf } from '../../src/standard/parameters.ts';
import { segmentsOfUri } from '../../src/standard/paths.ts';
import type { TSchema } from '../../src/standard/type.ts';
import { code, fence, type Page, pretty, table } from './page.ts';
import { fieldsOf } from './schema_fields.ts';

const server = 'http://127.0.0.1:8030';

/** The declarations in the form that the router serves; nothing calls their handlers. */
const categories = categoriesApi.map((declared) =>
  implementWith(declared as never, {} as never),
) as readonly Category[];
const operations = operationsOf(categories, 'v2');

/** An endpoint with what addresses it. */
export interface ReferencedEndpoint {
  /** Such as `tables.create`. */
  readonly id: string;
  /** Below /console/docs/, with the anchor. */
  readonly href: string;
  readonly endpoint: Endpoint;
}

const idOf = (category: Category, endpoint: Endpoint): string =>
  (operations.find((one) => one.category === category && one.endpoint === endpoint) as Operation).operationId;

/** The first part of the ids, such as `user_grants`. */
const slugOf = (category: Category): string =>
  idOf(category, category.endpoints[0] as Endpoint).split('.')[0] as string;

/** Without the aliases. */
const formsOf = (category: Category, endpoint: Endpoint): Operation[] =>
  operations.filter((one) => one.category === category && one.endpoint === endpoint && one.aliasOf === undefined);

const anchorOf = (id: string): string => id.replace('.', '');

export const endpoints: readonly ReferencedEndpoint[] = categories.flatMap((category) =>
  category.endpoints.map((endpoint) => {
    const id = idOf(category, endpoint);
    return { id, endpoint, href: `reference/${slugOf(category)}#${anchorOf(id)}` };
  }),
);

export function referencePages(): Page[] {
  return categories
    .map((category) => ({
      path: `reference/${slugOf(category)}`,
      label: slugOf(category).replaceAll('_', ' '),
      markdown: pageOf(category),
      source: `docs/reference/${slugOf(category)}.md`,
    }))
    .sort((a, b) => a.label.localeCompare(b.label));
}

export function referenceOverview(): Page {
  const sections = categories.flatMap((category) => [
    `## [${category.title}](reference/${slugOf(category)}.md)`,
    table(
      ['operation', 'request', 'purpose'],
      category.endpoints.map((endpoint) => {
        const [{ method, path }] = formsOf(category, endpoint) as [Operation];
        const id = idOf(category, endpoint);
        const href = `reference/${slugOf(category)}.md#${anchorOf(id)}`;
        return [`[${code(id)}](${href})`, code(`${method.toUpperCase()} ${path}`), endpoint.summary];
      }),
    ),
  ]);
  return {
    path: 'reference',
    label: 'All operations',
    markdown: [overviewIntroduction, ...sections].join('\n\n'),
    source: 'docs/reference.md',
  };
}

const overviewIntroduction = `# REST reference

Every operation of the API, generated from the same declarations that the server validates requests with. [openapi.json](../openapi.json)
contains the same for programs, and the aliases of paths: those without the catalog, which mean the catalog \`default\`, and those that end in
\`create\`. What all operations have in common is in [the API](api.md).

The examples assume a variable \`TOKEN\` with an access token. In TypeScript, \`client\` is the [typed client](client.md).`;

function pageOf(category: Category): string {
  const fields = fieldTable(category.record, false);
  return [
    `# ${category.title}`,
    category.doc,
    parentText(category),
    ...(fields === '' ? [] : ['## The record', fields, fence('json', pretty(category.example))]),
    ...category.endpoints.flatMap((endpoint) => sectionOf(category, endpoint)),
  ].join('\n\n');
}

function parentText({ parent, parentDefault, securable }: Category): string {
  const above = categories.find(({ name }) => name === parent);
  const place =
    above === undefined
      ? ''
      : `Each belongs to one of the [${slugOf(above)}](${slugOf(above)}.md)${parentDefault === undefined ? '' : `; paths without it mean \`${parentDefault}\``}. `;
  return `${place}${securable ? 'Privileges can be [granted](role_grants.md) on it.' : ''}`;
}

function sectionOf(category: Category, endpoint: Endpoint): string[] {
  const id = idOf(category, endpoint);
  const forms = formsOf(category, endpoint);
  const query = queryOf(endpoint);
  const body = bodyOf(endpoint, true);
  const example = exampleOf(category, endpoint);
  return [
    `## ${id}`,
    endpoint.summary,
    endpoint.description ?? '',
    fence('http', forms.map(({ method, path }) => `${method.toUpperCase()} ${path}`).join('\n')),
    permissionText(endpoint.permission),
    ...(query && fieldTable(query, true) ? ['**Query parameters**', fieldTable(query, true)] : []),
    ...(body && fieldTable(body, true) ? ['**Body**', fieldTable(body, true)] : []),
    ...textBodyText(endpoint),
    ...resultText(category, endpoint),
    codesText(ownCodesOf(endpoint)),
    '**Example**',
    fence('sh', curlText(example, server)),
    fence('ts', typedCall(example.code, endpoint)),
    ...(endpoint.example?.result === undefined
      ? []
      : ['The `result` of the response:', fence('json', pretty(endpoint.example.result))]),
  ].filter((text) => text !== '');
}

/** `isInput`: with a column that says which fields are required; fields of results are always present unless their type says otherwise. */
function fieldTable(schema: TSchema, isInput: boolean): string {
  const rows = fieldsOf(schema).map(({ path, type, isRequired, limits, description }) => [
    `${code(path)}${isInput && isRequired ? ' (required)' : ''}`,
    code(type),
    limits,
    description,
  ]);
  return rows.length === 0 ? '' : table(['field', 'type', 'limits', 'meaning'], rows);
}

const places: Readonly<Record<Permission['on'], string>> = {
  object: 'the object',
  parent: 'the parent of the collection',
  target: 'the objects that the request names',
  caller: '',
};

function permissionText({ privilege, on, orWithin, orSelf }: Permission): string {
  if (on === 'caller') return '**Permission**: none; only what belongs to the caller is found.';
  const alternatives = [
    ...(orWithin ? ['on something within it, which alone is then shown'] : []),
    ...(orSelf ? ['none for the user itself or the owner'] : []),
  ];
  const more = alternatives.length > 0 ? `, or ${alternatives.join(', or ')}` : '';
  return `**Permission**: [\`${privilege}\`](../security.md) on ${places[on]}${more}.`;
}

function textBodyText({ textBodies = {} }: Endpoint): string[] {
  const types = Object.entries(textBodies);
  if (types.length === 0) return [];
  return [
    `The body can also be text: ${types.map(([type, field]) => `with \`Content-Type: ${type}\` it is \`${field}\``).join(', ')}.`,
  ];
}

function resultText(category: Category, endpoint: Endpoint): string[] {
  const { verb, result, item, task } = endpoint;
  const byTask = task === undefined ? '' : ` It may respond with a task (202) of the type \`${task}\` instead.`;
  const record = '[the record](#the-record)';
  if (verb === 'delete') return [`**Result**: \`deleted\`, false if the object did not exist.${byTask}`];
  if (isPaged(endpoint)) {
    const items = Object.entries((result as { properties?: object } | undefined)?.properties ?? {}).find(
      ([, field]) => (field as { type?: string }).type === 'array',
    );
    const key = items?.[0] ?? listKeyOf(category);
    const more = item && item !== category.record ? fieldTable(item, false) : '';
    const hasRecord = more === '' && Object.keys(category.record.properties).length > 0;
    const each = hasRecord ? `, each ${record}` : '';
    return [`**Result**: a page: \`${key}\`${each}, and \`nextPageToken\` if there are more.`, more];
  }
  if (result === undefined && verb === 'action')
    return [
      `**Result**: a task (202) of the type \`${task}\`, whose \`result\` has:`,
      taskResultTable(task),
      taskCodesText(task),
    ];
  if (result === undefined || result === category.record) {
    const created = verb === 'create' ? ', with `created`: false if it already existed' : '';
    return [`**Result**: ${record}${created}.${byTask}`, taskCodesText(task)];
  }
  return [`**Result**${byTask === '' ? ':' : `.${byTask}`}`, fieldTable(result, false), taskCodesText(task)];
}

const taskResultTable = (task: string | undefined): string =>
  task !== undefined && Object.hasOwn(taskResults, task) ? fieldTable(taskResults[task as TaskType], false) : '';

const linkToCode = (name: Code): string => `[${code(name)}](../codes/${name}.md)`;

/** The codes with which the task of an operation can fail. */
export const failuresOfTask = (task: string | undefined): readonly Code[] =>
  task !== undefined && Object.hasOwn(taskResults, task) ? (taskCodesOf(task as TaskType) ?? []) : [];

function taskCodesText(task: string | undefined): string {
  const links = failuresOfTask(task).map(linkToCode);
  return links.length > 0 ? `**Codes of a task that failed** (\`error.code\`): ${links.join(', ')}.` : '';
}

const codesText = (codes: readonly Code[]): string => {
  const links = codes.map(linkToCode);
  const own = links.length > 0 ? `${links.join(', ')}, and ` : '';
  return `**Codes**: ${own}those that [every request](../codes.md) can have.`;
};

type Members = Readonly<Record<string, unknown>>;
type Call = (given?: unknown) => unknown;

/** The call of the example in the declaration, on the object of the record's example. */
function exampleOf(category: Category, endpoint: Endpoint): DescribedCall {
  const described = describeCall((client) => callOn(client, category, endpoint));
  return { ...described, code: described.code.replace(/\.page\(\)$/, '') };
}

function callOn(client: Client, category: Category, endpoint: Endpoint): unknown {
  const path = [...ancestorsOf(category), category];
  const segments = segmentsOfUri(exampleUri(category));
  let at = client as unknown as Members;
  for (const [depth, { name }] of path.entries()) {
    const collection = at[camelCase(name)] as unknown as Members & ((name: string) => Members);
    const isLast = depth === path.length - 1;
    at = isLast && endpoint.on === 'collection' ? collection : collection(segments[depth]?.name ?? 'name');
  }
  const call = at[camelCase(operationNameOf(category, endpoint))] as Call;
  const given = endpoint.example?.body;
  const answer = given === undefined ? call() : call(given);
  // A list sends nothing before it is read.
  return isPaged(endpoint) ? (answer as { page(): unknown }).page() : answer;
}

/** In the declaration, whose order the endpoints have. */
function operationNameOf(category: Category, endpoint: Endpoint): string {
  const declared = categoriesApi[categories.indexOf(category)];
  return Object.keys(declared?.endpoints ?? {})[category.endpoints.indexOf(endpoint)] as string;
}

function ancestorsOf({ parent }: Category): Category[] {
  const above = categories.find(({ name }) => name === parent);
  return above === undefined ? [] : [...ancestorsOf(above), above];
}

/** Rows have no address of their own: they are in the table of its example. */
function exampleUri(category: Category): string {
  const { uri } = category.example as { readonly uri?: string };
  const above = ancestorsOf(category).at(-1);
  return uri ?? (above === undefined ? '' : exampleUri(above));
}

function typedCall(call: string, endpoint: Endpoint): string {
  if (isPaged(endpoint)) return `for await (const item of ${call}) console.log(item);`;
  return `const result = await ${call}${endpoint.task === undefined ? '' : '.done()'};`;
}

/** The calls of all examples, by the id of the operation. */
export const exampleCalls: readonly { readonly id: string; readonly call: DescribedCall }[] = categories.flatMap(
  (category) =>
    category.endpoints.map((endpoint) => ({ id: idOf(category, endpoint), call: exampleOf(category, endpoint) })),
);
