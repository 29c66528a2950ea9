// The steps of the fuzz run over grants: users, roles, objects and grants are created and deleted, by root or by users who may or
// may not.
import assert from 'node:assert/strict';
import { newToken } from '../../access/people.ts';
import { type GrantedPrivilege, type GrantObject, type GrantTarget, retainIf } from './grants_model.ts';
import { grantedPrivileges, type Step } from './grants_questions.ts';
import { type GrantsWorld, type Holder, pick, uriOfObject, uriOfTarget } from './grants_world.ts';

const columns = [
  { name: 'id', type: 'BIGINT' },
  { name: 'k', type: 'INT' },
];

export class GrantsSteps {
  readonly #world: GrantsWorld;

  constructor(world: GrantsWorld) {
    this.#world = world;
  }

  async take(step: Step): Promise<void> {
    const holder = (step.byOther && pick(this.#world.holders, step.who)) || (this.#world.holders[0] as Holder);
    switch (step.do) {
      case 'catalog':
        return this.#make(
          holder,
          'catalogs',
          undefined,
          step,
          this.#world.model.may(holder, 'use', this.#world.warehouse),
        );
      case 'database':
        return this.#make(holder, 'databases', pick(this.#world.objectsIn('catalogs'), step.what), step);
      case 'table':
        return this.#make(holder, 'tables', pick(this.#world.objectsIn('databases'), step.what), step);
      case 'role':
        return this.#make(holder, 'roles', undefined, step);
      case 'user':
        return this.#make(holder, 'users', undefined, step);
      case 'drop':
        return this.#drop(holder, step);
      case 'rename':
        return this.#rename(holder, step);
      case 'give':
        return this.#give(holder, step);
      case 'use':
      case 'grant':
      case 'revoke':
        return this.#grant(holder, step);
      case 'join':
      case 'leave':
        return this.#join(holder, step);
      case 'disable':
      case 'enable':
        return this.#enable(holder, step);
      default:
        return this.#token(step);
    }
  }

  async #make(
    holder: Holder,
    category: string,
    parent: GrantObject | undefined,
    step: Step,
    isRequired = true,
  ): Promise<void> {
    const name = this.#world.free(category, parent, step.other);
    if (name === undefined || (!parent && ['databases', 'tables'].includes(category))) return;
    const allowed = this.#world.model.may(holder, 'create', parent ?? `/${category}`) && isRequired;
    const path = `${parent ? uriOfObject(parent) : '/api/v2'}/${category}`;
    const body = { name, ...(category === 'tables' ? { columns } : {}) };
    const isCreated = await this.#world.attempt(holder, `creates ${path} ${name}`, allowed, () =>
      this.#world.request(holder, 'POST', path, body),
    );
    if (!isCreated) return;
    const thing: GrantObject = { category, name, owner: holder.user, ...(parent ? { parent } : {}) };
    this.#world.model.things.add(thing);
    if (category !== 'users') return;
    const secret = await newToken(this.#world.server, name, 'own');
    this.#world.holders.push({ user: thing, tokenName: 'own', secret });
  }

  /** What steps may be about: not what everything else stands on. */
  #changeable(): GrantObject[] {
    return [...this.#world.model.things].filter(({ name, parent }) => parent || !['default', 'root'].includes(name));
  }

  async #drop(holder: Holder, { what }: Step): Promise<void> {
    const thing = pick(this.#changeable(), what);
    if (!thing) return;
    const query = ['catalogs', 'databases'].includes(thing.category) ? '?cascade=true' : '';
    const allowed = this.#world.model.may(holder, 'drop', thing);
    const path = uriOfObject(thing) + query;
    if (
      !(await this.#world.attempt(holder, `drops ${path}`, allowed, () => this.#world.request(holder, 'DELETE', path)))
    )
      return;
    this.#world.model.drop(thing);
  }

  async #rename(holder: Holder, { what, other }: Step): Promise<void> {
    const thing = pick(this.#changeable(), what);
    const newName = thing && this.#world.free(thing.category, thing.parent, other);
    if (!thing || newName === undefined) return;
    const allowed = this.#world.model.may(holder, thing.category === 'users' ? 'own' : 'alter', thing);
    const path = `${uriOfObject(thing)}/rename`;
    if (
      await this.#world.attempt(holder, `renames ${path}`, allowed, () =>
        this.#world.request(holder, 'POST', path, { newName }),
      )
    )
      thing.name = newName;
  }

  /** Nothing is granted to users that the grantor cannot see. */
  async #give(holder: Holder, { what, other }: Step): Promise<void> {
    const thing = pick(this.#changeable(), what);
    const owner = pick(this.#world.objectsIn('users'), other);
    if (!thing || !owner || !this.#world.model.sees(holder, owner)) return;
    const allowed = this.#world.model.may(holder, 'alter', thing) && this.#world.model.may(holder, 'own', thing);
    const body = { owner: owner.name };
    const path = uriOfObject(thing);
    if (
      await this.#world.attempt(holder, `gives ${path} to ${owner.name}`, allowed, () =>
        this.#world.request(holder, 'PATCH', path, body),
      )
    )
      thing.owner = owner;
  }

  async #grant(holder: Holder, step: Step): Promise<void> {
    const { grants } = this.#world.model;
    const may = (privilege: string, on: GrantTarget) =>
      this.#world.model.may(holder, 'grant', on) && this.#world.model.may(holder, privilege, on);
    if (step.do === 'revoke') {
      const revoked = pick(grants, step.what);
      if (!revoked) return;
      const { to, privilege, on } = revoked;
      const { result } = await this.#world.server.get(`${uriOfObject(to)}/grants?pageSize=1000`);
      const listed = result.grants as { uri: string; privilege: string; on: string }[];
      const uri = listed.find((grant) => grant.privilege === privilege && grant.on === uriOfTarget(on))?.uri;
      assert.ok(uri, `${uriOfObject(to)} does not show the grant of ${privilege} on ${uriOfTarget(on)}`);
      const revoke = () => this.#world.request(holder, 'DELETE', uri);
      const allowed = may(privilege, on) && this.#world.model.sees(holder, to);
      if (await this.#world.attempt(holder, `revokes ${uri}`, allowed, revoke))
        retainIf(grants, (grant) => grant !== revoked);
      return;
    }
    const to = pick(
      [...this.#world.objectsIn('users'), ...this.#world.objectsIn('roles')].filter(({ name }) => name !== 'root'),
      step.other,
    );
    const on = step.do === 'use' ? this.#world.warehouse : pick(this.#world.grantable(), step.what);
    const privilege = step.do === 'use' ? 'use' : pick(grantedPrivileges, step.privilege);
    if (!to || on === undefined || privilege === undefined) return;
    if (grants.some((grant) => grant.to === to && grant.privilege === privilege && grant.on === on)) return;
    if (!this.#world.model.sees(holder, to)) return;
    const body = { privilege, on: uriOfTarget(on) };
    const send = () => this.#world.request(holder, 'POST', `${uriOfObject(to)}/grants`, body);
    if (await this.#world.attempt(holder, `grants ${to.name} ${privilege} on ${body.on}`, may(privilege, on), send))
      grants.push({ to, privilege, on });
  }

  async #join(holder: Holder, { do: how, what, other }: Step): Promise<void> {
    const { members } = this.#world.model;
    const role = pick(this.#world.objectsIn('roles'), what);
    const user = pick(this.#world.objectsIn('users'), other);
    if (!role || !user || !this.#world.model.sees(holder, user)) return;
    const action = how === 'join' ? 'add_members' : 'remove_members';
    const path = `${uriOfObject(role)}/${action}`;
    const send = () => this.#world.request(holder, 'POST', path, { members: [user.name] });
    if (
      !(await this.#world.attempt(holder, `${path} ${user.name}`, this.#world.model.may(holder, 'grant', role), send))
    )
      return;
    retainIf(members, (member) => member.role !== role || member.user !== user);
    if (how === 'join') members.push({ role, user });
  }

  async #enable(holder: Holder, { do: how, what }: Step): Promise<void> {
    const user = pick(
      this.#world.objectsIn('users').filter(({ name }) => name !== 'root'),
      what,
    );
    if (!user) return;
    const disabled = how === 'disable';
    const send = () => this.#world.request(holder, 'PATCH', uriOfObject(user), { disabled });
    if (
      !(await this.#world.attempt(holder, `${how}s ${user.name}`, this.#world.model.may(holder, 'alter', user), send))
    )
      return;
    if (disabled) this.#world.model.disabled.add(user);
    else this.#world.model.disabled.delete(user);
  }

  async #token(step: Step): Promise<void> {
    if (step.do === 'untoken') {
      const holder = pick(
        this.#world.holders.filter(({ scopes }) => scopes),
        step.what,
      );
      if (!holder || !this.#world.model.things.has(holder.user)) return;
      (await this.#world.server.delete(`${uriOfObject(holder.user)}/tokens/${holder.tokenName}`)).is(200);
      retainIf(this.#world.holders, (candidate) => candidate !== holder);
      const listed = await this.#world.request(holder, 'GET', '/api/v2/catalogs');
      listed.is(401, 'UNAUTHENTICATED');
      return;
    }
    const user = pick(this.#world.objectsIn('users'), step.what);
    if (!user) return;
    const scopes: GrantedPrivilege[] = [step.other, step.who].map((n, i) => ({
      privilege: pick(grantedPrivileges, step.privilege + i) as string,
      on: pick(this.#world.grantable(), n) as GrantTarget,
    }));
    const tokenName = `t${this.#world.tokens++}`;
    const grants = scopes.map(({ privilege, on }) => [privilege, uriOfTarget(on).slice('/api/v2'.length)] as const);
    this.#world.holders.push({
      user,
      scopes,
      tokenName,
      secret: await newToken(this.#world.server, user.name, tokenName, grants),
    });
  }
}
