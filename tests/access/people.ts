// Users for tests, each with a token and a client of its own.
import { type Reply, type TestServer, uri } from '../server.ts';

/** A privilege, and the path under /api/v2 on which it is granted. */
export type GrantedPrivilege = readonly [privilege: string, on: string];

export class Person {
  readonly name: string;
  readonly token: string;
  readonly #server: TestServer;

  constructor(server: TestServer, name: string, token: string) {
    this.name = name;
    this.token = token;
    this.#server = server;
  }

  request(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
    const authorization = `Bearer ${this.token}`;
    return this.#server.request(method, path, {
      headers: { authorization, ...headers },
      ...(body === undefined ? {} : { body }),
    });
  }

  get = (path: string) => this.request('GET', path);
  post = (path: string, body: unknown = {}) => this.request('POST', path, body);

  query(database: string, sql: string, more: object = {}): Promise<Reply> {
    return this.post(uri`/databases/${database}/query`, { sql, ...more });
  }
}

export async function grant(server: TestServer, grantee: string, grants: readonly GrantedPrivilege[]): Promise<void> {
  for (const [privilege, on] of grants) {
    const reply = await server.post(`/api/v2/${grantee}/grants`, { privilege, on: `/api/v2${on}` });
    if (reply.code !== 'OBJECT_ALREADY_EXISTS') reply.is(201);
  }
}

/** A new user with a token. `scopes`: of the token. */
export async function newPerson(
  server: TestServer,
  name: string,
  grants: readonly GrantedPrivilege[] = [],
  scopes?: readonly GrantedPrivilege[],
): Promise<Person> {
  await server.client.users.create({ name });
  await grant(server, `users/${encodeURIComponent(name)}`, grants);
  return new Person(server, name, await newToken(server, name, 'test', scopes));
}

/** The secret of a new token. */
export async function newToken(
  server: TestServer,
  user: string,
  name: string,
  scopes?: readonly GrantedPrivilege[],
): Promise<string> {
  const scoped = scopes && { scopes: scopes.map(([privilege, on]) => ({ privilege, on: `/api/v2${on}` })) };
  return (await server.post(uri`/users/${user}/tokens`, { name, ...scoped })).is(201).at('secret');
}
