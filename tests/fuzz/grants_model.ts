// The access rules, written from docs/security.md and not from the code: the fuzz run over grants (grants_run.ts) checks the
// service against them. Knows no requests and no SQL; names are used for messages and lists only.

export interface Thing {
  readonly category: string;
  name: string;
  readonly parent?: Thing;
  /** A user. */
  owner: Thing | undefined;
}
/** An object, a top-level collection (`/users`), or everything (`/`). */
export type Place = Thing | string;
export interface Given {
  readonly privilege: string;
  readonly on: Place;
}
export interface Caller {
  readonly user: Thing;
  readonly scopes?: readonly Given[];
}

/** An object or collection and its ancestors. */
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

  /** The grants of a user and its roles, or of a role. */
  grantsOf(to: Thing): Given[] {
    const roles = this.members.filter(({ user }) => user === to).map(({ role }) => role);
    return this.grants.filter((grant) => [to, ...roles].includes(grant.to));
  }

  covers(grants: readonly Given[], privilege: string, place: Place): boolean {
    return grants.some((grant) => [privilege, 'own'].includes(grant.privilege) && above(place).includes(grant.on));
  }

  /** Granted or owned; the scopes of a token restrict. */
  may({ user, scopes }: Caller, privilege: string, place: Place): boolean {
    if (!this.isActive(user) || (scopes && !this.covers(scopes, privilege, place))) return false;
    const owns = above(place).some((object) => typeof object === 'object' && object.owner === user);
    return user === this.root || owns || this.covers(this.grantsOf(user), privilege, place);
  }

  /** Users see themselves, except with a token with scopes. */
  sees(caller: Caller, thing: Thing): boolean {
    return this.may(caller, 'read', thing) || (caller.user === thing && !caller.scopes && this.isActive(thing));
  }

  /** Whether a list of an object's children is shown, perhaps in part: something in it was granted, or is owned. */
  reaches({ user, scopes }: Caller, holder: Thing): boolean {
    const inside = (held: readonly Given[]) => held.some(({ on }) => above(on).includes(holder));
    if (!this.isActive(user)) return false;
    if (scopes && !inside(scopes) && !this.covers(scopes, 'read', holder)) return false;
    const owned = [...this.things].some((object) => object.owner === user && above(object).includes(holder));
    return owned || inside(this.grantsOf(user)) || this.may({ user }, 'read', holder);
  }

  /** A statement: the warehouse, each source, each target; the database that it is sent to, or something in it. */
  mayRun(
    caller: Caller,
    database: Thing,
    warehouse: Thing,
    reads: readonly Thing[],
    writes: readonly Thing[],
  ): boolean {
    return (
      this.reaches(caller, database) &&
      this.may(caller, 'use', warehouse) &&
      reads.every((table) => this.may(caller, 'read', table)) &&
      writes.every((table) => this.may(caller, 'write', table))
    );
  }

  /** With all its contents, the grants on it, and the grants to it. Objects that it owned pass to root. */
  drop(thing: Thing): void {
    for (const object of [...this.things]) if (above(object).includes(thing)) this.things.delete(object);
    for (const object of this.things) if (object.owner === thing) object.owner = this.root;
    const isGone = (place: Place) => typeof place === 'object' && !this.things.has(place);
    keepOnly(this.grants, ({ to, on }) => !isGone(to) && !isGone(on));
    keepOnly(this.members, ({ role, user }) => !isGone(role) && !isGone(user));
  }
}

export function keepOnly<T>(list: T[], keep: (item: T) => boolean): void {
  list.splice(0, list.length, ...list.filter(keep));
}
