// The in-memory directory of users, roles and their members, grants, and tokens. Loaded at the start and updated after each commit;
// the rights of a principal are computed here, once for each change of rights. The view of one server: several servers on one store
// would have to notify each other.

import type { Principal, Scope } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { Store } from '../../store/store.ts';
import { DirectoryLoader } from './directory_loader.ts';
import { type Grant, type Role, rootUserId, type Token, type User, type UserSpec } from './directory_types.ts';
import { GrantIndex } from './grant_index.ts';
import { GrantSet, Rights } from './rights.ts';

interface ObjectChange {
  readonly category: string;
  readonly objectId: string;
  readonly object?: { readonly id: string; readonly name: string; readonly spec: unknown };
  /** Dropped but recoverable: the grants on it are retained, without effect until it is restored. */
  readonly canUndrop?: true;
}

export class Directory {
  readonly users = new Map<string, User>();
  readonly roles = new Map<string, Role>();
  readonly tokens = new Map<string, Token>();
  readonly #userNames = new Map<string, User>();
  readonly #roleNames = new Map<string, Role>();
  readonly #identities = new Map<string, User>();
  readonly #rolesOfUser = new Map<string, Set<string>>();
  readonly #membersOfRole = new Map<string, Set<string>>();
  readonly #grants = new Map<string, Map<string, Grant>>();
  readonly #grantIndex = new GrantIndex();
  /** Objects that are dropped but recoverable. */
  readonly #dropped = new Set<string>();
  /** By id of the user or role; computed on demand. */
  readonly #grantSets = new Map<string, GrantSet>();
  readonly #rightsByPrincipal = new WeakMap<Principal, Rights>();
  readonly #rightsByScopes = new WeakMap<readonly Scope[], Rights>();
  /** Incremented with every change of anyone's rights. */
  rightsVersion = 0;
  /** Incremented with every change that can invalidate credentials. */
  credentialsVersion = 0;

  async load(store: Store): Promise<void> {
    const objects = await store.db
      .selectFrom('objects')
      .select(['id', 'category', 'name', 'spec'])
      .where('category', 'in', ['users', 'roles'])
      .where('parent_id', 'is', null)
      .where('state', 'in', ['ready', 'altering'])
      .execute();
    const loader = new DirectoryLoader(store);
    for (const { id, category, name, spec } of objects)
      this.objectChanged({
        category,
        objectId: loader.intern(id),
        object: { id: loader.intern(id), name, spec: JSON.parse(spec) },
      });
    await loader.loadMembers((roleId, userId) => this.#addMember(roleId, userId));
    await loader.loadGrants((grant) => this.#addGrant(grant));
    await loader.loadTokens((token) => this.tokens.set(token.digest, token));
    await loader.loadDropped((id) => this.#dropped.add(id));
    this.#rightsChanged();
  }

  userNamed(name: string): User | undefined {
    return this.#userNames.get(name);
  }

  roleNamed(name: string): Role | undefined {
    return this.#roleNames.get(name);
  }

  userOfIdentity(providerId: string, subject: string): User | undefined {
    return this.#identities.get(identityKey(providerId, subject));
  }

  /** The current name of a user; the id for a deleted user. */
  nameOf(userId: string): string {
    return this.users.get(userId)?.name ?? userId;
  }

  rolesOf(userId: string): ReadonlySet<string> {
    return this.#rolesOfUser.get(userId) ?? new Set();
  }

  membersOf(roleId: string): ReadonlySet<string> {
    return this.#membersOfRole.get(roleId) ?? new Set();
  }

  grantsOf(granteeId: string): ReadonlyMap<string, Grant> {
    return this.#grants.get(granteeId) ?? new Map();
  }

  /** Without grants on dropped objects, which have no effect until the object is restored. */
  effectiveGrantsOf(granteeId: string): Iterable<Grant> {
    const grants = this.grantsOf(granteeId).values();
    if (this.#dropped.size === 0) return grants;
    return grants.filter(({ path }) => !path.some((id) => this.#dropped.has(id)));
  }

  /** The grants that apply to the last object of a path of ids: those on it and on everything above it. */
  grantsOnPath(path: readonly string[]): Grant[] {
    return path.flatMap((id) => this.#grantIndex.findOn(id));
  }

  /** The ids of the user and the roles whose grants a principal has. */
  subjectsOf(principal: Principal): string[] {
    return [...new Set([principal.id, ...this.rolesOf(principal.id), ...(principal.roles ?? [])])];
  }

  /** Whether the user exists and is not disabled. `root` cannot be disabled. */
  isActive(principal: Principal): boolean {
    const user = this.users.get(principal.id);
    return user !== undefined && (user.spec.disabled !== true || user.id === rootUserId);
  }

  /** Without regard to the scopes of a token. See `rightsOfScopes`. */
  rightsOf(principal: Principal): Rights {
    const cached = this.#rightsByPrincipal.get(principal);
    if (cached?.version === this.rightsVersion) return cached;
    const rights = new Rights(this.rightsVersion, this.#grantSetsOf(principal), this.#isRoot(principal));
    this.#rightsByPrincipal.set(principal, rights);
    return rights;
  }

  /** The rights that a token's scopes restrict it to. */
  rightsOfScopes(scopes: readonly Scope[]): Rights {
    let rights = this.#rightsByScopes.get(scopes);
    if (!rights) {
      rights = new Rights(0, [new GrantSet(scopes)]);
      this.#rightsByScopes.set(scopes, rights);
    }
    return rights;
  }

  /** Call it after an object was created, altered or dropped. For categories other than users and roles, only grants are updated. */
  objectChanged({ category, objectId, object, canUndrop }: ObjectChange): void {
    if (category === 'users') this.#userChanged(objectId, object);
    else if (category === 'roles') this.#roleChanged(objectId, object);
    if (canUndrop) this.#setDropped(objectId, true);
    else if (!object) this.#removeGrantsOn(objectId);
    else if (this.#dropped.has(objectId)) this.#setDropped(objectId, false);
  }

  grantAdded(grant: Grant): void {
    this.#addGrant(grant);
    this.#rightsChanged();
  }

  grantRemoved(granteeId: string, grantId: string): void {
    this.#removeGrant(granteeId, grantId);
    this.#rightsChanged();
  }

  setMembers(roleId: string, userIds: ReadonlySet<string>): void {
    for (const userId of this.membersOf(roleId)) if (!userIds.has(userId)) this.#removeMember(roleId, userId);
    for (const userId of userIds) this.#addMember(roleId, userId);
    this.#rightsChanged();
  }

  /** Call it when something other than users and tokens invalidated credentials. */
  credentialsChanged(): void {
    this.credentialsVersion++;
  }

  tokenCreated(token: Token): void {
    this.tokens.set(token.digest, token);
  }

  tokenRemoved(digest: string): void {
    this.tokens.delete(digest);
    this.credentialsVersion++;
  }

  #isRoot({ id }: Principal): boolean {
    return id === rootUserId;
  }

  #grantSetsOf(principal: Principal): GrantSet[] {
    if (this.#isRoot(principal) || !this.isActive(principal)) return [];
    const all: GrantSet[] = [];
    for (const subject of this.subjectsOf(principal)) {
      const grants = this.#grants.get(subject);
      if (!grants || grants.size === 0) continue;
      let granted = this.#grantSets.get(subject);
      if (!granted) {
        granted = new GrantSet(this.effectiveGrantsOf(subject));
        this.#grantSets.set(subject, granted);
      }
      all.push(granted);
    }
    return all;
  }

  #setDropped(objectId: string, isDropped: boolean): void {
    if (isDropped) this.#dropped.add(objectId);
    else this.#dropped.delete(objectId);
    const grants = this.#grantIndex.findWithin(objectId);
    for (const { granteeId } of grants) this.#grantSets.delete(granteeId);
    if (grants.length > 0) this.#rightsChanged();
  }

  #userChanged(id: string, object: ObjectChange['object']): void {
    const before = this.users.get(id);
    if (before) {
      if (this.#userNames.get(before.name) === before) this.#userNames.delete(before.name);
      const { identity } = before.spec;
      if (identity) this.#identities.delete(identityKey(identity.providerId, identity.subject));
    }
    if (object) {
      const user: User = { id, name: object.name, spec: object.spec as UserSpec };
      this.users.set(id, user);
      this.#userNames.set(user.name, user);
      const { identity } = user.spec;
      if (identity) this.#identities.set(identityKey(identity.providerId, identity.subject), user);
    } else {
      this.users.delete(id);
      for (const roleId of [...this.rolesOf(id)]) this.#removeMember(roleId, id);
      this.#rolesOfUser.delete(id);
      for (const grantId of [...this.grantsOf(id).keys()]) this.#removeGrant(id, grantId);
      this.#grants.delete(id);
      for (const [digest, token] of this.tokens) if (token.userId === id) this.tokens.delete(digest);
    }
    this.credentialsVersion++;
    this.#rightsChanged();
  }

  #roleChanged(id: string, object: ObjectChange['object']): void {
    const before = this.roles.get(id);
    if (before && this.#roleNames.get(before.name) === before) this.#roleNames.delete(before.name);
    // Tokens of identity providers name roles.
    this.credentialsVersion++;
    if (object) {
      const role = { id, name: object.name };
      this.roles.set(id, role);
      this.#roleNames.set(role.name, role);
    } else {
      this.roles.delete(id);
      for (const userId of [...this.membersOf(id)]) this.#removeMember(id, userId);
      this.#membersOfRole.delete(id);
      for (const grantId of [...this.grantsOf(id).keys()]) this.#removeGrant(id, grantId);
      this.#grants.delete(id);
      this.#rightsChanged();
    }
  }

  /** The store has deleted the grants on the object. Its id is never reused, but access to its ancestors may depend on them. */
  #removeGrantsOn(objectId: string): void {
    this.#dropped.delete(objectId);
    const grants = this.#grantIndex.findWithin(objectId);
    for (const { granteeId, grantId } of grants) this.#removeGrant(granteeId, grantId);
    if (grants.length > 0) this.#rightsChanged();
  }

  #removeGrant(granteeId: string, grantId: string): void {
    const grants = this.#grants.get(granteeId);
    const grant = grants?.get(grantId);
    if (!grants || !grant) return;
    grants.delete(grantId);
    this.#grantSets.delete(granteeId);
    this.#grantIndex.remove(grant);
  }

  #addGrant(grant: Grant): void {
    const { granteeId, grantId } = grant;
    const grants = this.#grants.get(granteeId);
    if (grants?.has(grantId)) return;
    this.#grantSets.delete(granteeId);
    this.#grantIndex.add(grant);
    if (grants) grants.set(grantId, grant);
    else this.#grants.set(granteeId, new Map([[grantId, grant]]));
  }

  #addMember(roleId: string, userId: string): void {
    addTo(this.#rolesOfUser, userId, roleId);
    addTo(this.#membersOfRole, roleId, userId);
  }

  #removeMember(roleId: string, userId: string): void {
    this.#rolesOfUser.get(userId)?.delete(roleId);
    this.#membersOfRole.get(roleId)?.delete(userId);
  }

  #rightsChanged(): void {
    this.rightsVersion++;
  }
}

function addTo(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set) set.add(value);
  else sets.set(key, new Set([value]));
}

const identityKey = (providerId: string, subject: string) => JSON.stringify([providerId, subject]);

export function grantOf(row: {
  readonly grant_id: string;
  readonly grantee_id: string;
  readonly privilege: string;
  readonly on_id: string;
  readonly path: string;
  readonly created_at: number;
  readonly created_by: string;
}): Grant {
  return {
    grantId: row.grant_id,
    granteeId: row.grantee_id,
    privilege: row.privilege as Privilege,
    onId: row.on_id,
    path: JSON.parse(row.path) as string[],
    createdAt: row.created_at,
    createdBy: row.created_by,
  };
}
