// The access rules, written from docs/security.md and not from the code: the fuzz run over grants (grants_run.ts) checks the
// service against them. Knows no requests and no SQL; names are used for messages and lists only.

export interface GrantObject {
  readonly category: string;
  name: string;
  readonly parent?: GrantObject;
  /** A user. */
  owner: GrantObject | undefined;
}
/** An object, a top-level collection (`/users`), or everything (`/`). */
export type GrantTarget = GrantObject | string;
export interface GrantedPrivilege {
  readonly privilege: string;
  readonly on: GrantTarget;
}
export interface Caller {
  readonly user: GrantObject;
  readonly scopes?: readonly GrantedPrivilege[];
}

/** An object or collection and its ancestors. */
export function ancestorsOf(place: GrantTarget): GrantTarget[] {
  if (typeof place === 'string') return place === '/' ? ['/'] : [place, '/'];
  return [place, ...(place.parent ? ancestorsOf(place.parent) : ancestorsOf(`/${place.category}`))];
}

export class GrantsModel {
  readonly root: GrantObject = { category: 'users', name: 'root', owner: undefined };
  readonly things = new Set<GrantObject>([this.root]);
  readonly disabled = new Set<GrantObject>();
  readonly members: { readonly role: GrantObject; readonly user: GrantObject }[] = [];
  readonly grants: { readonly to: GrantObject; readonly privilege: string; readonly on: GrantTarget }[] = [];

  isActive = (user: GrantObject) => this.things.has(user) && !this.disabled.has(user);

  /** The grants of a user and its roles, or of a role. */
  grantsOf(to: GrantObject): GrantedPrivilege[] {
    const roles = this.members.filter(({ user }) => user === to).map(({ role }) => role);
    return this.grants.filter((grant) => [to, ...roles].includes(grant.to));
  }

  covers(grants: readonly GrantedPrivilege[], privilege: string, place: GrantTarget): boolean {
    return grants.some(
      (grant) => [privilege, 'own'].includes(grant.privilege) && ancestorsOf(place).includes(grant.on),
    );
  }

  /** Granted or owned; the scopes of a token restrict. */
  may({ user, scopes }: Caller, privilege: string, place: GrantTarget): boolean {
    if (!this.isActive(user) || (scopes && !this.covers(scopes, privilege, place))) return false;
    const isOwner = ancestorsOf(place).some((object) => typeof object === 'object' && object.owner === user);
    return user === this.root || isOwner || this.covers(this.grantsOf(user), privilege, place);
  }

  /** Users see themselves, except with a token with scopes. */
  sees(caller: Caller, thing: GrantObject): boolean {
    return this.may(caller, 'read', thing) || (caller.user === thing && !caller.scopes && this.isActive(thing));
  }

  /** Whether a list of an object's children is shown, perhaps in part: something in it was granted, or is owned. */
  reaches({ user, scopes }: Caller, holder: GrantObject): boolean {
    const isInsideGrants = (grants: readonly GrantedPrivilege[]) =>
      grants.some(({ on }) => ancestorsOf(on).includes(holder));
    if (!this.isActive(user)) return false;
    if (scopes && !isInsideGrants(scopes) && !this.covers(scopes, 'read', holder)) return false;
    const ownsBelow = [...this.things].some((object) => object.owner === user && ancestorsOf(object).includes(holder));
    return ownsBelow || isInsideGrants(this.grantsOf(user)) || this.may({ user }, 'read', holder);
  }

  /** A statement: the warehouse, each source, each target; the database that it is sent to, or something in it. */
  mayRun(
    caller: Caller,
    database: GrantObject,
    warehouse: GrantObject,
    reads: readonly GrantObject[],
    writes: readonly GrantObject[],
  ): boolean {
    return (
      this.reaches(caller, database) &&
      this.may(caller, 'use', warehouse) &&
      reads.every((table) => this.may(caller, 'read', table)) &&
      writes.every((table) => this.may(caller, 'write', table))
    );
  }

  /** With all its contents, the grants on it, and the grants to it. Objects that it owned pass to root. */
  drop(thing: GrantObject): void {
    for (const object of [...this.things]) if (ancestorsOf(object).includes(thing)) this.things.delete(object);
    for (const object of this.things) if (object.owner === thing) object.owner = this.root;
    const isGone = (place: GrantTarget) => typeof place === 'object' && !this.things.has(place);
    retainIf(this.grants, ({ to, on }) => !isGone(to) && !isGone(on));
    retainIf(this.members, ({ role, user }) => !isGone(role) && !isGone(user));
  }
}

export function retainIf<T>(list: T[], keep: (item: T) => boolean): void {
  list.splice(0, list.length, ...list.filter(keep));
}
