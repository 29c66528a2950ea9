// The rules of who may do what, written from docs/security.md and not from the code: the fuzz run over grants (grants_run.ts)
// holds the service to them. Knows no request and no SQL; names are here for messages and lists alone.

export interface Thing {
  readonly category: string;
  name: string;
  readonly parent?: Thing;
  /** A user. */
  owner: Thing | undefined;
}
/** A thing, a collection at the top (`/users`), or everything (`/`). */
export type Place = Thing | string;
export interface Given {
  readonly privilege: string;
  readonly on: Place;
}
export interface Caller {
  readonly user: Thing;
  readonly scopes?: readonly Given[];
}

/** A place and all that it is in. */
export function above(place: Place): Place[] {
  if (typeof place === 'string') return place === '/' ? ['/'] : [place, '/'];
  return [place, ...(place.parent ? above(place.parent) : above(`/${place.category}`))];
}

export class GrantsModel {
  readonly root: Thing = { category: 'users', name: 'root', owner: undefined };
  readonly things = new Set<Thing>([this.root]);
  readonly disabled = new Set<Thing>();
  readonly members: { readonly role: Thing; readonly user: Thing }[] = [];
  readonly grants: { readonly to: Thing; readonly privilege: string; readonly on: Place }[] = [];

  isActive = (user: Thing) => this.things.has(user) && !this.disabled.has(user);

  /** What is granted to a user and its roles, or to a role. */
  given(to: Thing): Given[] {
    const roles = this.members.filter(({ user }) => user === to).map(({ role }) => role);
    return this.grants.filter((one) => [to, ...roles].includes(one.to));
  }

  covers(given: readonly Given[], privilege: string, place: Place): boolean {
    return given.some((one) => [privilege, 'own'].includes(one.privilege) && above(place).includes(one.on));
  }

  /** Granted, or owned; a token's scopes take away. */
  may({ user, scopes }: Caller, privilege: string, place: Place): boolean {
    if (!this.isActive(user) || (scopes && !this.covers(scopes, privilege, place))) return false;
    const owns = above(place).some((one) => typeof one === 'object' && one.owner === user);
    return user === this.root || owns || this.covers(this.given(user), privilege, place);
  }

  /** One sees oneself, unless by a token that is confined. */
  sees(caller: Caller, thing: Thing): boolean {
    return this.may(caller, 'read', thing) || (caller.user === thing && !caller.scopes && this.isActive(thing));
  }

  /** Whether a list of what is in a thing is shown, perhaps in part: something in it was granted, or is owned. */
  reaches({ user, scopes }: Caller, holder: Thing): boolean {
    const inside = (given: readonly Given[]) => given.some(({ on }) => above(on).includes(holder));
    if (!this.isActive(user)) return false;
    if (scopes && !inside(scopes) && !this.covers(scopes, 'read', holder)) return false;
    const owned = [...this.things].some((one) => one.owner === user && above(one).includes(holder));
    return owned || inside(this.given(user)) || this.may({ user }, 'read', holder);
  }

  /** A statement: the warehouse, each source, each target; the database that it is sent to, or something in it. */
  mayRun(caller: Caller, at: Thing, warehouse: Thing, reads: readonly Thing[], writes: readonly Thing[]): boolean {
    return (
      this.reaches(caller, at) &&
      this.may(caller, 'use', warehouse) &&
      reads.every((table) => this.may(caller, 'read', table)) &&
      writes.every((table) => this.may(caller, 'write', table))
    );
  }

  /** With all that is in it, what was granted on it, and what was granted to it. What it owned is root's. */
  drop(thing: Thing): void {
    for (const one of [...this.things]) if (above(one).includes(thing)) this.things.delete(one);
    for (const one of this.things) if (one.owner === thing) one.owner = this.root;
    const isGone = (one: Place) => typeof one === 'object' && !this.things.has(one);
    keepOnly(this.grants, ({ to, on }) => !isGone(to) && !isGone(on));
    keepOnly(this.members, ({ role, user }) => !isGone(role) && !isGone(user));
  }
}

export function keepOnly<T>(list: T[], keep: (one: T) => boolean): void {
  list.splice(0, list.length, ...list.filter(keep));
}
