// The world of the fuzz run over grants: the same on a server and in the model, with the tokens of its users.
import assert from 'node:assert/strict';
import type { Reply, TestServer } from '../../server.ts';
import { type Caller, type GrantObject, GrantsModel, type GrantTarget } from './grants_model.ts';
import { marks } from './grants_questions.ts';

export interface Holder extends Caller {
  readonly tokenName: string;
  readonly secret: string;
}

/** Few, so that names are reused. */
const names = ['alpha', 'B b', 'ç/"d', 'delta'];

export const pick = <T>(from: readonly T[], n: number): T | undefined => from[n % Math.max(1, from.length)];

export function uriOfObject(thing: GrantObject): string {
  const parent = thing.parent ? uriOfObject(thing.parent) : '/api/v2';
  return `${parent}/${thing.category}/${encodeURIComponent(thing.name)}`;
}
export const uriOfTarget = (place: GrantTarget) =>
  typeof place === 'object' ? uriOfObject(place) : `/api/v2${place === '/' ? '' : place}`;

export class GrantsWorld {
  readonly server: TestServer;
  readonly model = new GrantsModel();
  readonly warehouse: GrantObject;
  /** The first is root. */
  readonly holders: Holder[] = [];
  tokens = 0;

  private constructor(server: TestServer) {
    this.server = server;
    const { root } = this.model;
    this.warehouse = { category: 'warehouses', name: 'default', owner: root };
    root.owner = root;
    this.model.things.add(this.warehouse).add({ category: 'catalogs', name: 'default', owner: root });
    this.holders.push({ user: root, tokenName: '', secret: server.token });
  }

  /** Deletes everything except what always exists. */
  static async begin(server: TestServer): Promise<GrantsWorld> {
    for (const key of ['catalogs', 'users', 'roles', 'databases'])
      for (const { name } of (await server.get(`/api/v2/${key}?pageSize=1000`)).at<{ name: string }[]>(key)) {
        if (['default', 'root'].includes(name)) continue;
        const cascade = ['catalogs', 'databases'].includes(key) ? '?cascade=true' : '';
        (await server.delete(`/api/v2/${key}/${encodeURIComponent(name)}${cascade}`)).is(200);
      }
    for (const { uri } of (await server.get('/api/v2/users/root/tokens')).at<{ uri: string }[]>('tokens'))
      (await server.delete(uri)).is(200);
    return new GrantsWorld(server);
  }

  objectsIn(category: string): GrantObject[] {
    return [...this.model.things].filter((object) => object.category === category);
  }

  request(holder: Holder, method: string, path: string, body?: unknown): Promise<Reply> {
    const headers = { authorization: `Bearer ${holder.secret}` };
    return this.server.request(method, path, { headers, ...(body === undefined ? {} : { body }) });
  }

  free(category: string, parent: GrantObject | undefined, n: number): string | undefined {
    const takenNames = new Set(
      this.objectsIn(category)
        .filter((object) => object.parent === parent)
        .map(({ name }) => name),
    );
    return pick(
      names.map((name) => (category === 'catalogs' ? `cat ${name}` : name)).filter((name) => !takenNames.has(name)),
      n,
    );
  }

  /** Does it as `holder` and compares the response with the rule; `allowed`: whether an active user may do it. */
  async attempt(
    holder: Holder,
    description: string,
    allowed: boolean,
    send: () => Promise<Reply>,
  ): Promise<Reply | undefined> {
    const reply = await send();
    const isEnabled = this.model.isActive(holder.user) && this.holders.includes(holder);
    const expected = !isEnabled ? '401 UNAUTHENTICATED' : allowed ? 'success' : '403 FORBIDDEN';
    const outcome = reply.status < 300 ? 'success' : `${reply.status} ${reply.code}`;
    assert.equal(
      outcome,
      expected,
      `${this.describe(holder)}: ${description}: ${reply.text.slice(0, 400)}\n${this.text()}`,
    );
    return outcome === 'success' ? reply : undefined;
  }

  describe({ user, scopes }: Caller): string {
    const scoped = scopes?.map(({ privilege, on }) => `${privilege} ${uriOfTarget(on)}`);
    return user.name + (scoped ? ` with a token for ${scoped.join(', ')}` : '');
  }

  text(): string {
    const { things, grants, members, disabled } = this.model;
    return [
      ...[...things].map(
        (object) => `${uriOfObject(object)} of ${object.owner?.name}${disabled.has(object) ? ', disabled' : ''}`,
      ),
      ...members.map(({ role, user }) => `${user.name} in ${role.name}`),
      ...grants.map(({ to, privilege, on }) => `${to.category} ${to.name}: ${privilege} ${uriOfTarget(on)}`),
    ].join('\n');
  }

  places(): GrantTarget[] {
    return [...this.model.things, ...marks];
  }

  /** Objects with rows in them more often. */
  grantable(): GrantTarget[] {
    const rich = ['catalogs', 'databases', 'tables'].flatMap((category) => this.objectsIn(category));
    return [...rich, '/catalogs', ...rich, ...this.places()];
  }
}
