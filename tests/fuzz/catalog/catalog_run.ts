// Runs random commands on a server and on the model, one after the other, and compares the responses.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Reply, TestServer } from '../../server.ts';
import { assertFor } from '../assert_for.ts';
import { type Command, categories, isSendable, pathText, sessions } from './catalog_commands.ts';
import { CatalogModel, type Expected } from './catalog_model.ts';
import type { ModelledEngine } from './modelled_engines.ts';
import type { ViewCommand } from './views_model.ts';

export interface CatalogRunOptions {
  readonly seed: number;
  readonly runs: number;
  /** Of a failure, as fast-check prints it. */
  readonly path?: string | undefined;
  /** No new run begins after this time. */
  readonly durationMs?: number | undefined;
  /** Where catalogs are created, and that of `default`. */
  readonly warehouse: string;
  /** Of the warehouse. */
  readonly engine: ModelledEngine;
}

const commandsMax = 60;
const pagesMax = 1000;

/** Throws with the shortest commands whose responses differ; otherwise returns the number of commands. */
export async function runCatalogModel(server: TestServer, options: CatalogRunOptions): Promise<number> {
  const { seed, runs, path, durationMs, warehouse, engine } = options;
  let commands = 0;
  const property = fc.asyncProperty(sessions(commandsMax), async (session) => {
    const run = new CatalogRun(server, session.isShort, warehouse);
    const model = new CatalogModel(await run.clear(), engine);
    for (const command of session.commands) {
      if (!isMeant(command, model, engine)) continue;
      commands++;
      await run.check(command, model);
    }
  });
  await assertFor(property, { seed, numRuns: runs, ...(path ? { path } : {}) }, durationMs);
  assert.ok(commands > 0, 'no command was sent');
  return commands;
}

const namedInBody: ReadonlySet<Command['do']> = new Set(['create', 'undrop', 'view', 'viewUndrop']);

/** Whether the API can express the command, and the response does not depend on how an engine folds case. */
function isMeant(command: Command, model: CatalogModel, { isInSql }: ModelledEngine): boolean {
  switch (command.do) {
    case 'create': {
      const name = command.path.at(-1) as string;
      // PUT .../create, PUT .../search and PUT .../undrop are the collection's actions.
      if (command.form === 'object' && (!isSendable([name]) || ['create', 'search', 'undrop'].includes(name)))
        return false;
      return isSendable(command.path.slice(0, -1));
    }
    case 'list':
    case 'dropped':
    case 'search':
    case 'views':
      return isSendable(command.parent);
    case 'view':
    case 'viewPatch':
      if (!command.sourcePath.every((name) => name.isWellFormed() && isInSql(name) && name !== '')) return false;
      return isSendable(command.do === 'view' ? command.path.slice(0, -1) : command.path);
    case 'viewUndrop':
    case 'undrop':
      return isSendable(command.path.slice(0, -1));
    case 'copy':
      return isSendable(command.path);
    case 'patch':
      return isSendable(command.path) && meantBody(command) !== undefined;
    case 'count':
      return isSendable(command.path) && command.path.every(isInSql) && !model.isAmbiguousToSql(command.path);
    default:
      return isSendable(command.path);
  }
}

/** The fields that the category has; undefined if none remains. */
function meantBody({ path: editedPath, body }: Extract<Command, { do: 'patch' }>) {
  const { comment, properties, type, nullable } = body;
  const fields = editedPath.length === 4 ? { comment, type, nullable } : { comment, properties };
  return Object.values(fields).every((value) => value === undefined) ? undefined : fields;
}

const comparableCommand = (command: Command): Command => {
  if (command.do !== 'patch') return command;
  const { versionOff } = command.body;
  const fields = Object.entries(meantBody(command) ?? {}).filter(([, value]) => value !== undefined);
  return { ...command, body: { ...Object.fromEntries(fields), ...(versionOff === undefined ? {} : { versionOff }) } };
};

function queryOf({ path, cascade, purge }: Extract<Command, { do: 'delete' }>): string {
  const flags = [
    ...(cascade === undefined || path.length > 2 ? [] : [`cascade=${cascade}`]),
    ...(purge && path.length < 4 ? ['purge=true'] : []),
  ];
  return flags.length === 0 ? '' : `?${flags.join('&')}`;
}

interface DroppedObject {
  readonly uri: string;
}

class CatalogRun {
  readonly #server: TestServer;
  readonly #isShort: boolean;
  readonly #warehouse: string;

  constructor(server: TestServer, isShort: boolean, warehouse: string) {
    this.#server = server;
    this.#isShort = isShort;
    this.#warehouse = warehouse;
  }

  /** Deletes everything except the default catalog, whose version is returned. */
  async clear(): Promise<number> {
    await this.#clearViews();
    for (const { name } of (await this.#server.get('/api/v2/catalogs?pageSize=1000')).at<{ name: string }[]>(
      'catalogs',
    )) {
      if (name !== 'default') (await this.#server.delete(`${pathText([name], false)}?cascade=true&purge=true`)).is(200);
    }
    for (const { name } of (await this.#server.get('/api/v2/databases?pageSize=1000')).at<{ name: string }[]>(
      'databases',
    )) {
      (await this.#server.delete(`${pathText(['default', name], true)}?cascade=true&purge=true`)).is(200);
    }
    await this.#clearDropped();
    return (await this.#server.patch(pathText(['default'], false), { comment: null, properties: null }))
      .is(200)
      .at('version');
  }

  /** From the top: sources of views stay until the views are gone. */
  async #clearViews(): Promise<void> {
    const uris: string[] = [];
    const all = '?pageSize=1000';
    for (const { uri } of (await this.#server.get(`/api/v2/catalogs${all}`)).at<DroppedObject[]>('catalogs'))
      for (const database of (await this.#server.get(`${uri}/databases${all}`)).at<DroppedObject[]>('databases'))
        uris.push(
          ...(await this.#server.get(`${database.uri}/views${all}`))
            .at<DroppedObject[]>('views')
            .map((view) => view.uri),
        );
    while (uris.length > 0) {
      const uri = uris.shift() as string;
      const reply = await this.#server.delete(`${uri}?purge=true`);
      if (reply.code === 'IN_USE') uris.push(uri);
      else reply.is(200);
    }
  }

  /** Restores everything restorable under an unused name, and deletes it for good. */
  async #clearDropped(): Promise<void> {
    for (const [collection, category] of [
      ['/api/v2/catalogs', 'catalogs'],
      ['/api/v2/databases', 'databases'],
    ] as const) {
      const dropped = await this.#server.post(`${collection}/search`, { dropped: true, pageSize: 1000 });
      for (const { id } of dropped.is(200).at<{ id: string }[]>(category)) {
        (await this.#server.post(`${collection}/undrop`, { id, newName: id })).is(200);
        (await this.#server.delete(`${collection}/${id}?cascade=true&purge=true`)).is(200);
      }
    }
  }

  async check(command: Command, model: CatalogModel): Promise<void> {
    const expectedVersion = model.versionOf('path' in command ? command.path : []);
    const expected = model.expect(comparableCommand(command));
    if ('parent' in command) return this.#checkList(command, expected);
    const reply = await this.#send(command, expectedVersion);
    if (reply.status === 202) return this.#checkTask(command, reply, expected);
    const description = `${JSON.stringify(command)}: ${reply.text.slice(0, 1000)}`;
    assert.equal(`${reply.status} ${reply.code}`, `${expected.status} ${expected.code}`, description);
    assert.partialDeepStrictEqual(reply.result, expected.result ?? {}, description);
  }

  /** A change that rewrites a table is a task on some engines: it ends as the response would be. */
  async #checkTask(
    command: Exclude<Command, { parent: unknown }>,
    accepted: Reply,
    { code, result = {} }: Expected,
  ): Promise<void> {
    const task = await this.#server.ended(accepted);
    const description = `${JSON.stringify(command)}: ${task.text.slice(0, 1000)}`;
    const ended = task.is(200).at('state') === 'succeeded' ? '0' : task.at('error', 'code');
    assert.equal(ended, code, description);
    if (ended !== '0') return;
    const { created: _, ...shown } = result as { readonly created?: boolean };
    const object = await this.#server.get(pathText(command.path, this.#isShort));
    assert.partialDeepStrictEqual(object.is(200).result, shown, description);
  }

  async #checkList(command: Extract<Command, { parent: unknown }>, expected: Expected): Promise<void> {
    const category = command.do === 'views' ? 'views' : (categories[command.parent.length] as string);
    const names: string[] = [];
    let pages = 0;
    for (let token: string | undefined; pages < pagesMax; ) {
      const reply = await this.#sendList(command, category, token);
      const description = `${JSON.stringify(command)}: ${reply.text.slice(0, 1000)}`;
      assert.equal(`${reply.status} ${reply.code}`, `${expected.status} ${expected.code}`, description);
      if (!expected.names) return assert.partialDeepStrictEqual(reply.result, expected.result ?? {}, description);
      names.push(...reply.at<{ name: string }[]>(category).map(({ name }) => name));
      pages++;
      token = reply.at<string | undefined>('nextPageToken');
      if (token === undefined) break;
    }
    assert.deepEqual(names, expected.names, JSON.stringify(command));
    assert.equal(pages, Math.max(1, Math.ceil(names.length / command.pageSize)), `pages of ${JSON.stringify(command)}`);
  }

  #sendList(
    command: Extract<Command, { parent: unknown }>,
    category: string,
    token: string | undefined,
  ): Promise<Reply> {
    const { parent, pageSize } = command;
    const uri = pathText(parent, this.#isShort, category);
    if (command.do === 'list' || command.do === 'views')
      return this.#server.get(`${uri}?pageSize=${pageSize}${token ? `&pageToken=${token}` : ''}`);
    const { pattern: namePattern } = command;
    const comment = command.do === 'search' ? command.comment : undefined;
    return this.#server.post(`${uri}/search`, {
      pageSize,
      namePattern,
      ...(command.do === 'dropped' ? { dropped: true } : {}),
      ...(comment === undefined ? {} : { comment }),
      ...(token ? { pageToken: token } : {}),
    });
  }

  #send(command: Exclude<Command, { parent: unknown }>, version: number): Promise<Reply> {
    // If the name is in the body, it can be one that a path cannot contain.
    const uri = namedInBody.has(command.do) ? '' : pathText(command.path, this.#isShort);
    switch (command.do) {
      case 'create':
        return this.#sendCreate(command);
      case 'get':
        return this.#server.get(uri);
      case 'patch': {
        const { versionOff } = command.body;
        const expected = versionOff === undefined ? {} : { expectedVersion: version + versionOff };
        return this.#server.patch(uri, { ...meantBody(command), ...expected });
      }
      case 'rename':
        return this.#server.post(`${uri}/rename`, { newName: command.newName });
      case 'delete':
        return this.#server.delete(`${uri}${queryOf(command)}`);
      case 'undrop': {
        const [category, name] = [categories[command.path.length - 1] as string, command.path.at(-1) as string];
        const newName = command.newName === undefined ? {} : { newName: command.newName };
        const collection = pathText(command.path.slice(0, -1), this.#isShort, category);
        return this.#server.post(`${collection}/undrop`, { name, ...newName });
      }
      case 'copy': {
        const [catalog, database, newName] = command.to;
        return this.#server.post(`${uri}/copy_definition`, { catalog, database, newName });
      }
      case 'insert':
        return this.#server.post(`${uri}/rows`, { rows: Array.from({ length: command.rows }, () => ({})) });
      case 'count': {
        const name = command.path.map((part) => `"${part.replaceAll('"', '""')}"`).join('.');
        return this.#server.post(`${pathText(command.path.slice(0, 2), this.#isShort)}/query`, {
          sql: `SELECT count(*) FROM ${name}`,
        });
      }
      case 'truncate':
        return this.#server.post(`${uri}/truncate`);
      default:
        return this.#sendView(command);
    }
  }

  #sendView(command: ViewCommand): Promise<Reply> {
    const collection = pathText(command.path.slice(0, 2), this.#isShort, 'views');
    const name = command.path.at(-1) as string;
    const uri = `${collection}/${encodeURIComponent(name.toWellFormed())}`;
    const sourcePath = 'sourcePath' in command ? command.sourcePath : [];
    const sql = `SELECT count(*) AS c FROM ${sourcePath.map((part) => `"${part.replaceAll('"', '""')}"`).join('.')}`;
    switch (command.do) {
      case 'view': {
        const body = { name, sql, ...(command.comment === undefined ? {} : { comment: command.comment }) };
        return command.put ? this.#server.put(collection, body) : this.#server.post(collection, body);
      }
      case 'viewPatch':
        return this.#server.patch(uri, { sql });
      case 'viewGet':
        return this.#server.get(uri);
      case 'viewRename':
        return this.#server.post(`${uri}/rename`, { newName: command.newName });
      case 'viewDelete':
        return this.#server.delete(`${uri}${command.purge ? '?purge=true' : ''}`);
      case 'viewUndrop': {
        const { newName } = command;
        return this.#server.post(`${collection}/undrop`, { name, ...(newName === undefined ? {} : { newName }) });
      }
    }
  }

  #sendCreate(command: Extract<Command, { do: 'create' }>): Promise<Reply> {
    const { path: viewPath, form, put, comment, columns, unique } = command;
    const [category, name] = [categories[viewPath.length - 1] as string, viewPath.at(-1) as string];
    const [first] = columns;
    const { name: _inPath, ...column } = first ?? { name };
    const key = columns.filter((column) => column.defaultValue === undefined).map((one) => one.name);
    const body = {
      ...(comment === undefined ? {} : { comment }),
      ...(viewPath.length === 1 ? { warehouse: this.#warehouse } : {}),
      ...(viewPath.length === 3 ? { columns, ...(unique ? { unique_key_constraints: key } : {}) } : {}),
      ...(viewPath.length === 4 ? column : {}),
    };
    const collection = pathText(viewPath.slice(0, -1), this.#isShort, category);
    if (form === 'object') return this.#server.put(pathText(viewPath, this.#isShort), body);
    const uri = form === 'action' ? `${collection}/create` : collection;
    return put ? this.#server.put(uri, { name, ...body }) : this.#server.post(uri, { name, ...body });
  }
}
