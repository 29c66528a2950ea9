// The questions of the fuzz run over grants: requests, statements, lists, and the service's own report of who may do what.
import assert from 'node:assert/strict';
import { ancestorsOf, type GrantObject, type GrantTarget } from './grants_model.ts';
import { privileges, type Question, statementForms } from './grants_questions.ts';
import { type GrantsWorld, type Holder, pick, uriOfObject, uriOfTarget } from './grants_world.ts';

export class GrantsAsker {
  readonly #world: GrantsWorld;

  constructor(world: GrantsWorld) {
    this.#world = world;
  }

  /** False if there is nothing to ask about. */
  async ask(question: Question): Promise<boolean> {
    // Root is asked rarely, because it may do everything.
    const [root, ...others] = this.#world.holders;
    const holder = (pick(others, question.who) ?? root) as Holder;
    const table = pick(this.#world.objectsIn('tables'), question.what);
    const object = pick([...this.#world.model.things], question.what) as GrantObject;
    const may = (privilege: string, place: GrantTarget = object) => this.#world.model.may(holder, privilege, place);
    const usable = () => may('use', this.#world.warehouse);
    const ask = async (summary: string, allowed: boolean, method: string, path: string, body?: unknown) => {
      await this.#world.attempt(holder, summary, allowed, () => this.#world.request(holder, method, path, body));
      return true;
    };
    switch (question.ask) {
      case 'sql':
        return this.#askSql(holder, question);
      case 'get':
        return ask(`reads ${uriOfObject(object)}`, this.#world.model.sees(holder, object), 'GET', uriOfObject(object));
      case 'patch':
        if (object === this.#world.model.root) return false;
        return ask(`alters ${uriOfObject(object)}`, may('alter'), 'PATCH', uriOfObject(object), {
          comment: `${question.form}`,
        });
      case 'list':
        return this.#askList(holder, object);
      case 'missing':
        return this.#askMissing(holder, object);
      case 'check':
        return this.#askCheck(object, question);
      case 'effective':
        return this.#askEffective(object);
      case 'resume':
        return ask(
          'resumes',
          may('operate', this.#world.warehouse),
          'POST',
          `${uriOfObject(this.#world.warehouse)}/resume`,
        );
      default: {
        if (!table) return false;
        const path = uriOfObject(table);
        if (question.ask === 'truncate')
          return ask(`truncates ${path}`, may('write', table), 'POST', `${path}/truncate`);
        if (question.ask === 'rows')
          return ask(`reads rows of ${path}`, may('read', table) && usable(), 'GET', `${path}/rows`);
        return ask(`inserts rows into ${path}`, may('write', table) && usable(), 'POST', `${path}/rows`, {
          rows: [[1, 2]],
        });
      }
    }
  }

  async #askSql(holder: Holder, { form: n, what, tables: chosen, short, ask: _ask }: Question): Promise<boolean> {
    const form = pick(statementForms, n);
    const database = pick(this.#world.objectsIn('databases'), what);
    const tables = chosen.map((choice) => pick(this.#world.objectsIn('tables'), choice));
    if (!form || !database || tables.some((candidate) => candidate === undefined)) return false;
    const nameAndVersion = (table: GrantObject) => {
      const parts = ancestorsOf(table)
        .flatMap((table) => (typeof table === 'object' ? [table] : []))
        .reverse();
      const from = short && table.parent === database ? 2 : short && database.parent === parts[0] ? 1 : 0;
      return parts
        .slice(from)
        .map(({ name }) => `"${name.replaceAll('"', '""')}"`)
        .join('.');
    };
    const sql = form.sql.replaceAll(/#(\d)/g, (_, i: string) => nameAndVersion(tables[Number(i)] as GrantObject));
    const tablesAt = (indexes: readonly number[]) => indexes.map((i) => tables[i] as GrantObject);
    const allowed = this.#world.model.mayRun(
      holder,
      database,
      this.#world.warehouse,
      tablesAt(form.reads),
      tablesAt(form.writes),
    );
    const action = what % 8 === 0 ? 'explain' : 'query';
    const path = `${uriOfObject(database)}/${action}`;
    await this.#world.attempt(holder, `${path} ${sql}`, allowed, () =>
      this.#world.request(holder, 'POST', path, { sql }),
    );
    return true;
  }

  async #askList(holder: Holder, scope: GrantObject): Promise<boolean> {
    const inner = { catalogs: 'databases', databases: 'tables' }[scope.category];
    const category = inner ?? scope.category;
    const isDirectHolder = inner === undefined ? undefined : scope;
    const path = `${isDirectHolder ? uriOfObject(isDirectHolder) : '/api/v2'}/${category}`;
    if (scope.category === 'tables') return false;
    const allowed = isDirectHolder === undefined || this.#world.model.reaches(holder, isDirectHolder);
    const send = () => this.#world.request(holder, 'GET', `${path}?pageSize=1000`);
    const reply = await this.#world.attempt(holder, `lists ${path}`, allowed, send);
    const children = this.#world.objectsIn(category).filter(({ parent }) => parent === isDirectHolder);
    const expected = children.filter((child) => this.#world.model.sees(holder, child)).map(({ name }) => name);
    const listed = reply?.at<{ name: string; owner: string }[]>(category) ?? [];
    if (reply)
      assert.deepEqual(
        listed.map(({ name }) => name),
        expected.sort(),
        `${this.#world.describe(holder)}: ${path}\n${this.#world.text()}`,
      );
    for (const { name, owner } of listed)
      assert.equal(owner, children.find((child) => child.name === name)?.owner?.name, `the owner of ${path}/${name}`);
    return true;
  }

  /** Whoever may read the container may learn that an object is missing. */
  async #askMissing(holder: Holder, scope: GrantObject): Promise<boolean> {
    const missing = { ...scope, name: 'never there' };
    const reply = await this.#world.request(holder, 'GET', uriOfObject(missing));
    const mayRead = this.#world.model.may(holder, 'read', scope.parent ?? `/${scope.category}`);
    const expected = !this.#world.model.isActive(holder.user) ? '401' : mayRead ? '404' : '403';
    assert.equal(
      String(reply.status),
      expected,
      `${this.#world.describe(holder)}: ${uriOfObject(missing)}\n${this.#world.text()}`,
    );
    return true;
  }

  async #askCheck(subject: GrantObject, { form, tables }: Question): Promise<boolean> {
    const to = pick([...this.#world.objectsIn('users'), ...this.#world.objectsIn('roles')], form) as GrantObject;
    const places = [subject, ...tables.map((n) => pick(this.#world.places(), n) as GrantTarget)];
    const checks = places.flatMap((place) => privileges.map((privilege) => ({ privilege, on: uriOfTarget(place) })));
    const reply = (await this.#world.server.post(`${uriOfObject(to)}/grants/check`, { checks })).is(200);
    const allowed = reply.at<{ allowed: boolean }[]>('results').map((result) => result.allowed);
    const expected = places.flatMap((place) =>
      privileges.map((privilege) =>
        to.category === 'roles'
          ? this.#world.model.covers(this.#world.model.grantsOf(to), privilege, place)
          : this.#world.model.may({ user: to }, privilege, place),
      ),
    );
    assert.deepEqual(
      allowed,
      expected,
      `check of ${uriOfObject(to)}: ${JSON.stringify(checks)}\n${this.#world.text()}`,
    );
    return true;
  }

  async #askEffective(subject: GrantObject): Promise<boolean> {
    if (subject.category !== 'users') return false;
    const reply = await this.#world.server.post(`${uriOfObject(subject)}/effective_grants`, { pageSize: 1000 });
    const listed = reply.is(200).at<{ privilege: string; on: string }[]>('grants');
    const describeGrants = (grantList: readonly { privilege: string; on: string }[]) =>
      grantList.map((grant) => `${grant.privilege} ${grant.on}`).sort();
    const expected = this.#world.model
      .grantsOf(subject)
      .map(({ privilege, on: place }) => ({ privilege, on: uriOfTarget(place) }));
    assert.deepEqual(
      describeGrants(listed),
      describeGrants(expected),
      `effective grants of ${subject.name}\n${this.#world.text()}`,
    );
    return true;
  }
}
