// Random commands over the whole catalog through the real HTTP API, against an in-memory model: status, code and key fields
// must agree. FUZZ_SEED (and FUZZ_PATH, which fast-check prints) replay a run; FUZZ_RUNS makes it longer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { seedFrom } from '../faults/random.ts';
import { type Reply, start, type TestServer } from '../server.ts';
import { type Command, categories, isSendable, pathText, sessions } from './catalog_commands.ts';
import { CatalogModel, type Expected } from './catalog_model.ts';

const seed = seedFrom('FUZZ_SEED');
const path = process.env.FUZZ_PATH;
const numRuns = Number(process.env.FUZZ_RUNS ?? 60);
const commandsMax = 60;
const pagesMax = 1000;

let server: TestServer;
before(async () => {
  server = await start();
});
after(() => server.close());

test('the catalog answers as its model does', { timeout: 240_000 + numRuns * 5000 }, async (t) => {
  t.diagnostic(`FUZZ_SEED=${seed}`);
  let commands = 0;
  const property = fc.asyncProperty(sessions(commandsMax), async (session) => {
    const model = new CatalogModel(await clear());
    for (const command of session.commands) {
      if (!isMeant(command, model)) continue;
      commands++;
      await check(command, model, session.short);
    }
  });
  await fc.assert(property, {
    seed,
    numRuns,
    ...(path ? { path } : {}),
    interruptAfterTimeLimit: 200_000 + numRuns * 5000,
  });
  t.diagnostic(`${commands} commands`);
});

/** Everything goes but what is always there: the default catalog, whose version is returned. */
async function clear(): Promise<number> {
  for (const { name } of (await server.get('/api/v2/catalogs?pageSize=1000')).at<{ name: string }[]>('catalogs')) {
    if (name !== 'default') (await server.delete(`${pathText([name], false)}?cascade=true`)).is(200);
  }
  for (const { name } of (await server.get('/api/v2/databases?pageSize=1000')).at<{ name: string }[]>('databases')) {
    (await server.delete(`${pathText(['default', name], true)}?cascade=true`)).is(200);
  }
  return (await server.patch(pathText(['default'], false), { comment: null, properties: null })).is(200).at('version');
}

/** Whether the command is one that the API can be told, and whose answer does not hang on how an engine folds case. */
function isMeant(command: Command, model: CatalogModel): boolean {
  switch (command.do) {
    case 'create': {
      const name = command.path.at(-1) as string;
      // PUT .../create and PUT .../search are the collection's actions.
      if (command.form === 'object' && (!isSendable([name]) || ['create', 'search'].includes(name))) return false;
      return isSendable(command.path.slice(0, -1));
    }
    case 'list':
    case 'search':
      return isSendable(command.parent);
    case 'copy':
      return isSendable(command.path);
    case 'patch':
      return isSendable(command.path) && meantBody(command) !== undefined;
    case 'count':
      return isSendable(command.path) && !model.isAmbiguousToSql(command.path);
    default:
      return isSendable(command.path);
  }
}

/** The fields that the category has; undefined where none is left. */
function meantBody({ path: at, body }: Extract<Command, { do: 'patch' }>) {
  const { comment, properties, type, nullable } = body;
  const fields = at.length === 4 ? { comment, type, nullable } : { comment, properties };
  return Object.values(fields).every((value) => value === undefined) ? undefined : fields;
}

async function check(command: Command, model: CatalogModel, short: boolean): Promise<void> {
  const asked = model.versionOf('path' in command ? command.path : []);
  const wanted = model.expect(meant(command));
  if (command.do === 'list' || command.do === 'search') return checkList(command, wanted, short);
  const reply = await send(command, asked, short);
  const told = `${JSON.stringify(command)}: ${reply.text.slice(0, 1000)}`;
  assert.equal(`${reply.status} ${reply.code}`, `${wanted.status} ${wanted.code}`, told);
  assert.partialDeepStrictEqual(reply.result, wanted.result ?? {}, told);
}

const meant = (command: Command): Command => {
  if (command.do !== 'patch') return command;
  const { versionOff } = command.body;
  const fields = Object.entries(meantBody(command) ?? {}).filter(([, value]) => value !== undefined);
  return { ...command, body: { ...Object.fromEntries(fields), ...(versionOff === undefined ? {} : { versionOff }) } };
};

async function checkList(
  command: Extract<Command, { do: 'list' | 'search' }>,
  wanted: Expected,
  short: boolean,
): Promise<void> {
  const category = categories[command.parent.length] as string;
  const names: string[] = [];
  let pages = 0;
  for (let token: string | undefined; pages < pagesMax; ) {
    const reply = await sendList(command, category, token, short);
    const told = `${JSON.stringify(command)}: ${reply.text.slice(0, 1000)}`;
    assert.equal(`${reply.status} ${reply.code}`, `${wanted.status} ${wanted.code}`, told);
    if (!wanted.names) return assert.partialDeepStrictEqual(reply.result, wanted.result ?? {}, told);
    names.push(...reply.at<{ name: string }[]>(category).map(({ name }) => name));
    pages++;
    token = reply.at<string | undefined>('nextPageToken');
    if (token === undefined) break;
  }
  assert.deepEqual(names, wanted.names, JSON.stringify(command));
  assert.equal(pages, Math.max(1, Math.ceil(names.length / command.pageSize)), `pages of ${JSON.stringify(command)}`);
}

function sendList(
  command: Extract<Command, { do: 'list' | 'search' }>,
  category: string,
  token: string | undefined,
  short: boolean,
): Promise<Reply> {
  const { parent, pageSize } = command;
  const uri = pathText(parent, short, category);
  if (command.do === 'list') return server.get(`${uri}?pageSize=${pageSize}${token ? `&pageToken=${token}` : ''}`);
  const { pattern: namePattern, comment } = command;
  return server.post(`${uri}/search`, {
    pageSize,
    namePattern,
    ...(comment === undefined ? {} : { comment }),
    ...(token ? { pageToken: token } : {}),
  });
}

function send(command: Exclude<Command, { do: 'list' | 'search' }>, version: number, short: boolean): Promise<Reply> {
  const uri = command.do === 'create' ? '' : pathText(command.path, short);
  switch (command.do) {
    case 'create':
      return sendCreate(command, short);
    case 'get':
      return server.get(uri);
    case 'patch': {
      const { versionOff } = command.body;
      const expected = versionOff === undefined ? {} : { expectedVersion: version + versionOff };
      return server.patch(uri, { ...meantBody(command), ...expected });
    }
    case 'rename':
      return server.post(`${uri}/rename`, { newName: command.newName });
    case 'delete':
      return server.delete(
        command.cascade === undefined || command.path.length > 2 ? uri : `${uri}?cascade=${command.cascade}`,
      );
    case 'copy': {
      const [catalog, database, newName] = command.to;
      return server.post(`${uri}/copy_definition`, { catalog, database, newName });
    }
    case 'insert':
      return server.post(`${uri}/rows`, { rows: Array.from({ length: command.rows }, () => ({})) });
    case 'count': {
      const name = command.path.map((part) => `"${part.replaceAll('"', '""')}"`).join('.');
      return server.post(`${pathText(command.path.slice(0, 2), short)}/query`, { sql: `SELECT count(*) FROM ${name}` });
    }
    case 'truncate':
      return server.post(`${uri}/truncate`);
  }
}

function sendCreate(command: Extract<Command, { do: 'create' }>, short: boolean): Promise<Reply> {
  const { path: at, form, put, comment, columns, unique } = command;
  const [category, name] = [categories[at.length - 1] as string, at.at(-1) as string];
  const [first] = columns;
  const { name: _inPath, ...column } = first ?? { name };
  const key = columns.filter((one) => one.defaultValue === undefined).map((one) => one.name);
  const body = {
    ...(comment === undefined ? {} : { comment }),
    ...(at.length === 3 ? { columns, ...(unique ? { unique_key_constraints: key } : {}) } : {}),
    ...(at.length === 4 ? column : {}),
  };
  const collection = pathText(at.slice(0, -1), short, category);
  if (form === 'object') return server.put(pathText(at, short), body);
  const uri = form === 'action' ? `${collection}/create` : collection;
  return put ? server.put(uri, { name, ...body }) : server.post(uri, { name, ...body });
}
