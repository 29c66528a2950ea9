// A server, users with no, some or nearly all privileges, and their calls of an endpoint.
import type { Privilege } from '../../src/model/privileges.ts';
import type { Category } from '../../src/standard/endpoint.ts';
import type { Operation } from '../../src/standard/openapi/operations.ts';
import { type GrantedPrivilege, newToken } from '../access/people.ts';
import { type Reply, TestServer, uri } from '../server.ts';
import { grantable, targets } from './access_needs.ts';
import { bodyOf, fixtureOf, freshName, makeFor, namedBody, newNameOf } from './fixtures.ts';
import {
  call,
  categories,
  exampleBody,
  keyOf,
  limits,
  noLoginThrottling,
  type Params,
  pathOf,
} from './operation_call.ts';
import { type World as Servers, worldOf } from './worlds.ts';

export interface World {
  /** As root. */
  readonly server: TestServer;
  /** The number of statements of the store in the meantime, including those of background work. */
  statementsOf(work: () => Promise<unknown>): Promise<number>;
}

export async function startWorld(servers: Servers = worldOf(import.meta.url)): Promise<World> {
  let statements = 0;
  const server = await servers.start({ ...limits, ...noLoginThrottling }, { injectStore: () => void statements++ });
  return {
    server,
    statementsOf: async (work) => {
      const before = statements;
      await work();
      return statements - before;
    },
  };
}

/** The same server with other credentials. */
export function withCredentials(server: TestServer, token: string): TestServer {
  return new TestServer({ url: server.url, token, dataDirectory: server.dataDirectory }, async () => {});
}

export class TestUser extends TestServer {
  readonly name: string;
  readonly #root: TestServer;
  constructor(root: TestServer, name: string, token: string) {
    super({ url: root.url, token, dataDirectory: root.dataDirectory }, async () => {});
    this.name = name;
    this.#root = root;
  }

  get path(): string {
    return uri`/users/${this.name}`;
  }

  /** Grants for the duration of the work. */
  async with<T>(grants: readonly GrantedPrivilege[], work: () => Promise<T>): Promise<T> {
    return withGrants(this.#root, this.path, grants, work);
  }

  async tokenFor(name: string, scopes?: readonly GrantedPrivilege[]): Promise<TestServer> {
    return withCredentials(this.#root, await newToken(this.#root, this.name, name, scopes));
  }
}

/** A user with a token and without grants. */
export async function newTestUser(
  server: TestServer,
  name = freshName(),
  scopes?: readonly GrantedPrivilege[],
): Promise<TestUser> {
  (await server.put(uri`/users/${name}`)).is(201);
  return new TestUser(server, name, await newToken(server, name, 'test', scopes));
}

export async function withGrants<T>(
  server: TestServer,
  grantee: string,
  grants: readonly GrantedPrivilege[],
  work: () => Promise<T>,
): Promise<T> {
  const created: string[] = [];
  for (const [privilege, on] of grants) {
    const reply = await server.put(`${grantee}/grants`, { privilege, on: `/api/v2${on}` });
    created.push(reply.is(201).at('uri'));
  }
  const result = await work();
  for (const grant of created) (await server.delete(grant)).is(200);
  return result;
}

/** Where a privilege is required: in a top-level collection, on an object or, without a path, on everything. */
export interface GrantTarget {
  readonly top: string;
  readonly path: readonly { readonly category: Category; readonly name: string }[];
}

const parentOf = (category: Category) => categories.find(({ name }) => name === category.parent);

/** The declared permission of an operation, on the nearest ancestor that can have grants. */
export function targetOf({ category, endpoint }: Operation, params: Params): GrantTarget {
  const { permission, on } = endpoint;
  if (permission.on === 'target') return { top: targets[category.name] as string, path: [] };
  const chain: Category[] = [];
  for (let ancestor: Category | undefined = category; ancestor; ancestor = parentOf(ancestor)) chain.unshift(ancestor);
  if (permission.on === 'parent' || on === 'collection') chain.pop();
  while (chain.length > 0 && !grantable.includes(chain.at(-1)?.name as string)) chain.pop();
  return {
    top: (chain[0] ?? rootOf(category)).name,
    path: chain.map((link) => ({ category: link, name: params[link.parameter] as string })),
  };
}

function rootOf(category: Category): Category {
  const parent = parentOf(category);
  return parent ? rootOf(parent) : category;
}

/** Under /api/v2, as a grant names it. */
export function uriOfTarget({ top, path }: GrantTarget): string {
  if (path.length === 0) return `/${top}`;
  return path.map(({ category, name }) => `/${category.name}/${encodeURIComponent(name)}`).join('');
}

/** The container of an object, the collection, or everything. */
export function uriOfParent({ top, path }: GrantTarget): string {
  return path.length === 0 ? '' : uriOfTarget({ top, path: path.slice(0, -1) });
}

/** Another object of the same kind. */
export async function uriOfSibling(server: TestServer, { top, path }: GrantTarget): Promise<string> {
  const last = path.at(-1);
  if (!last) return top === 'roles' ? '/identity_providers' : '/roles';
  const params = await fixtureOf(last.category).make(server);
  return uriOfTarget({
    top,
    path: path.map(({ category }) => ({ category, name: params[category.parameter] as string })),
  });
}

export const privilegeOf = ({ endpoint }: Operation): Privilege => endpoint.permission.privilege;

export const makeParams = (server: TestServer, operation: Operation) =>
  makeFor(operation.category, keyOf(operation), server);

/** A valid call of an endpoint. */
export function attempt(caller: TestServer, operation: Operation, params: Params): Promise<Reply> {
  const { category, endpoint } = operation;
  const { refused } = fixtureOf(category);
  const name = newNameOf(category);
  const isNew = endpoint.verb === 'create' && endpoint.named !== false;
  const path = pathOf(operation.path, isNew ? { ...params, [category.parameter]: name } : params);
  if (!endpoint.body) return call(caller, operation, path);
  if (refused?.[keyOf(operation)]) return call(caller, operation, path, { body: exampleBody(operation) });
  const body = bodyOf(category, keyOf(operation), params);
  return call(caller, operation, path, { body: namedBody(operation, name, body) });
}

/** Whether it succeeded, or was refused for a reason other than the caller. */
export function wasAllowed(operation: Operation, { status, code }: Reply): boolean {
  return status < 300 || code === fixtureOf(operation.category).refused?.[keyOf(operation)];
}
