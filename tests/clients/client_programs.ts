// Clients that are generated from openapi.client.json: how each is generated, and the program that makes four calls with it: it lists
// databases, creates a table, runs a query and polls a task. A program prints what it received as one line of JSON.

export const generatorsDirectory = import.meta.dirname;

export interface TypeScriptClient {
  readonly name: string;
  /** The script of the generator below node_modules, and its arguments. */
  readonly generate: (document: string, directory: string) => readonly string[];
  /** Reads the URL of the server and the token from the environment. */
  readonly program: string;
}

/** What every program prints. */
export const expectedCalls = {
  databases: ['shop'],
  table: 'orders',
  columns: ['id', 'note'],
  rows: [[1, 'a']],
  task: 'succeeded',
};

const opening = `
declare const process: { readonly env: Readonly<Record<string, string | undefined>>; exit(code: number): never };
const { SERVER_URL: url = '', SERVER_TOKEN: token = '', TABLE: name = '' } = process.env;
const sql = "SELECT 1 AS id, 'a' AS note";
`;

const openapiTypescript: TypeScriptClient = {
  name: 'openapi-typescript',
  generate: (document, directory) => ['openapi-typescript/bin/cli.js', document, '-o', `${directory}/schema.d.ts`],
  program: `
import createClient from 'openapi-fetch';
import type { paths } from './schema';
${opening}
const client = createClient<paths>({ baseUrl: url, headers: { authorization: \`Bearer \${token}\` } });
const catalogs = '/api/v2/catalogs/{catalog}/databases' as const;
async function main() {
  const path = { catalog: 'default', database: 'shop' };
  const listed = await client.GET(catalogs, { params: { path } });
  const created = await client.POST(\`\${catalogs}/{database}/tables\`, {
    params: { path },
    body: { name, columns: [{ name: 'id', type: 'BIGINT' }, { name: 'note', type: 'STRING' }] },
  });
  const run = (waitSeconds?: number) => client.POST(\`\${catalogs}/{database}/query\`, {
    params: { path },
    body: { sql, ...(waitSeconds === undefined ? {} : { waitSeconds }) },
  });
  const queried = await run();
  const submitted = await run(0);
  if (!submitted.data || !('taskId' in submitted.data.result)) throw new Error(JSON.stringify(submitted.error));
  const { taskId } = submitted.data.result;
  const task = await client.GET('/api/v2/tasks/{taskId}', { params: { path: { taskId }, query: { waitSeconds: 60 } } });
  const table = created.data && 'name' in created.data.result ? created.data.result : undefined;
  const result = queried.data && 'rows' in queried.data.result ? queried.data.result : undefined;
  console.log(JSON.stringify({
    databases: listed.data?.result.databases.map((item) => item.name),
    table: table?.name,
    columns: table?.columns.map((item) => item.name),
    rows: result?.rows,
    task: task.data?.result.state,
  }));
}
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
`,
};

const heyApi: TypeScriptClient = {
  name: '@hey-api/openapi-ts',
  generate: (document, directory) => ['@hey-api/openapi-ts/bin/run.js', '-i', document, '-o', `${directory}/api`],
  program: `
import { databasesList, databasesQuery, tablesCreate, tasksGet } from './api';
import { client } from './api/client.gen';
${opening}
client.setConfig({ baseUrl: url as never, auth: () => token, throwOnError: true });
async function main() {
  const path = { catalog: 'default', database: 'shop' };
  const options = { throwOnError: true } as const;
  const listed = await databasesList({ path, ...options });
  const created = await tablesCreate({
    path,
    body: { name, columns: [{ name: 'id', type: 'BIGINT' }, { name: 'note', type: 'STRING' }] },
    ...options,
  });
  const queried = await databasesQuery({ path, body: { sql }, ...options });
  const submitted = await databasesQuery({ path, body: { sql, waitSeconds: 0 }, ...options });
  if (!('taskId' in submitted.data.result)) throw new Error('no task');
  const task = await tasksGet({ path: submitted.data.result, query: { waitSeconds: 60 }, ...options });
  const table = 'name' in created.data.result ? created.data.result : undefined;
  const result = 'rows' in queried.data.result ? queried.data.result : undefined;
  console.log(JSON.stringify({
    databases: listed.data.result.databases.map((item) => item.name),
    table: table?.name,
    columns: table?.columns.map((item) => item.name),
    rows: result?.rows,
    task: task.data.result.state,
  }));
}
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
`,
};

const orval: TypeScriptClient = {
  name: 'orval',
  generate: (document, directory) => [
    'orval/dist/bin/orval.mjs',
    '--input',
    document,
    '--output',
    `${directory}/api.ts`,
    '--client',
    'fetch',
  ],
  program: `
import { databasesList, databasesQuery, tablesCreate, tasksGet } from './api';
${opening}
const send = globalThis.fetch;
// The generated functions call paths; where the server is, and with which credentials, is up to fetch.
globalThis.fetch = (path, init) =>
  send(url + String(path), { ...init, headers: { ...init?.headers, authorization: \`Bearer \${token}\` } as never });
async function main() {
  const listed = await databasesList('default');
  const created = await tablesCreate('default', 'shop', {
    name,
    columns: [{ name: 'id', type: 'BIGINT' }, { name: 'note', type: 'STRING' }],
  });
  const queried = await databasesQuery('default', 'shop', { sql });
  const submitted = await databasesQuery('default', 'shop', { sql, waitSeconds: 0 });
  if (listed.status !== 200 || created.status !== 201 || queried.status !== 200 || submitted.status !== 202)
    throw new Error(JSON.stringify([listed, created, queried, submitted]));
  const task = await tasksGet(submitted.data.result.taskId, { waitSeconds: 60 });
  if (task.status !== 200) throw new Error(JSON.stringify(task));
  console.log(JSON.stringify({
    databases: listed.data.result.databases.map((item) => item.name),
    table: created.data.result.name,
    columns: created.data.result.columns.map((item) => item.name),
    rows: queried.data.result.rows,
    task: task.data.result.state,
  }));
}
main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
`,
};

export const typeScriptClients: readonly TypeScriptClient[] = [openapiTypescript, heyApi, orval];

/** For openapi-python-client, whose package is called `api`. */
export const pythonProgram = `
import json, os
from api import AuthenticatedClient
from api.api.databases import databases_list, databases_query
from api.api.tables import tables_create
from api.api.tasks import tasks_get
from api.models import ColumnDefinition, CreateTableRequest, QueryRequest

client = AuthenticatedClient(base_url=os.environ['SERVER_URL'], token=os.environ['SERVER_TOKEN'], timeout=300)
sql = "SELECT 1 AS id, 'a' AS note"
listed = databases_list.sync('default', client=client)
body = CreateTableRequest(
    name=os.environ['TABLE'],
    columns=[ColumnDefinition(name='id', type_='BIGINT'), ColumnDefinition(name='note', type_='STRING')],
)
created = tables_create.sync('default', 'shop', client=client, body=body)
queried = databases_query.sync('default', 'shop', client=client, body=QueryRequest(sql=sql))
submitted = databases_query.sync('default', 'shop', client=client, body=QueryRequest(sql=sql, wait_seconds=0))
task = tasks_get.sync(submitted.result.task_id, client=client, wait_seconds=60)
print(json.dumps({
    'databases': [one.name for one in listed.result.databases],
    'table': created.result.name,
    'columns': [one.name for one in created.result.columns],
    'rows': queried.result.rows,
    'task': task.result.state,
}))
`;
