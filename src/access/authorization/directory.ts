// The in-memory directory of users, roles and their members, grants, and tokens. Loaded at the start; from then on it follows the changes of
// the store. The rights of a principal are computed here, once for each change of rights.

import type { Principal, Scope } from '../../model/principal.ts';
import { Failure } from '../../standard/failure.ts';
import type { Change, ChangedObject, GrantChange, ObjectChange, TokenChange } from '../../store/changes/change.ts';
import type { Store } from '../../store/store.ts';
import { DirectoryLoader } from './directory_loader.ts';
import { type Grant, grantOf, type Role, rootUserId, type Token, tokenOf, type User } from './directory_types.ts';
import { GrantIndex } from './grant_index.ts';
import { GrantSet, Rights } from './rights.ts';

export class Directory {
  readonly users = new Map<string, User>();
  readonly roles = new Map<string, Role>();
  readonly tokens = new Map<string, Token>();
  #userNames = new Map<string, User>();
  #roleNames = new Map<string, Role>();
  #identities = new Map<string, User>();
  #rolesOfUser = new Map<string, Set<string>>();
  #membersOfRole = new Map<string, Set<string>>();
  #grants = new Map<string, Map<string, Grant>>();
  #grantIndex = new GrantIndex();
  /** Objects that are dropped but recoverable. */
  #dropped = new Set<string>();
  /** By id of the user or role; computed on demand. */
  #grantSets = new Map<string, GrantSet>();
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
    for (const { id, category, name, spec } of objects) {
      if (category === 'users') this.#setUser(loader.intern(id), { name, spec });
      else this.#setRole(loader.intern(id), name);
    }
    await loader.loadMembers((roleId, userId) => this.#addMember(roleId, userId));
    await loader.loadGrants((grant) => this.#addGrant(grant));
    await loader.loadTokens((token) => this.tokens.set(token.digest, token));
    await loader.loadDropped((id) => this.#dropped.add(id));
    this.#rightsChanged();
  }

  /** Replaces everything by what the store contains now. Until that has been read, the previous contents remain in use. */
  async reload(store: Store): Promise<void> {
    const loaded = new Directory();
    await loaded.load(store);
    for (const [digest, token] of loaded.tokens)
      token.lastUsedAt = this.tokens.get(digest)?.lastUsedAt ?? token.lastUsedAt;
    replaceAll(this.users, loaded.users);
    replaceAll(this.roles, loaded.roles);
    replaceAll(this.tokens, loaded.tokens);
    this.#userNames = loaded.#userNames;
    this.#roleNames = loaded.#roleNames;
    this.#identities = loaded.#identities;
    this.#rolesOfUser = loaded.#rolesOfUser;
    this.#membersOfRole = loaded.#membersOfRole;
    this.#grants = loaded.#grants;
    this.#grantIndex = loaded.#grantIndex;
    this.#dropped = loaded.#dropped;
    this.#grantSets = loaded.#grantSets;
    this.credentialsVersion++;
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

  /** Of a task, which may have waited since it was submitted. Throws FORBIDDEN. */
  requireActive(submitter: Principal): void {
    if (!this.isActive(submitter)) throw new Failure('FORBIDDEN', 'the submitter was disabled or deleted');
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

  /** Idempotent: a change has the contents of its rows as of the change or later. */
  changed(change: Change): void {
    if (change.kind === 'object') this.#objectChanged(change);
    else if (change.kind === 'grant') this.#grantChanged(change);
    else if (change.kind === 'members') this.#setMembers(change.roleId, new Set(change.userIds));
    else if (change.kind === 'token') this.#tokenChanged(change);
  }

  #grantChanged({ granteeId, grantId, grant }: GrantChange): void {
    this.#removeGrant(granteeId, grantId);
    if (grant) this.#addGrant(grantOf(grant));
    this.#rightsChanged();
  }

  #tokenChanged({ digest, token }: TokenChange): void {
    if (!token) {
      this.tokens.delete(digest);
      this.credentialsVersion++;
    } else if (!this.tokens.has(digest)) {
      // A token never changes, and a new one invalidates nothing.
      this.tokens.set(digest, tokenOf(token));
    }
  }

  #objectChanged({ category, objectId, object }: ObjectChange): void {
    const visible = object?.isVisible ? object : undefined;
    if (category === 'users') this.#userChanged(objectId, visible);
    else if (category === 'roles') this.#roleChanged(objectId, visible);
    if (!object) this.#removeGrantsOn(objectId);
    else if (this.#dropped.has(objectId) === object.isVisible) this.#setDropped(objectId, !object.isVisible);
  }

  #setMembers(roleId: string, userIds: ReadonlySet<string>): void {
    for (const userId of this.membersOf(roleId)) if (!userIds.has(userId)) this.#removeMember(roleId, userId);
    for (const userId of userIds) this.#addMember(roleId, userId);
    this.#rightsChanged();
  }

  /** Call it when something other than users and tokens invalidated credentials. */
  credentialsChanged(): void {
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

  #userChanged(id: string, object: ChangedObject | undefined): void {
    const before = this.users.get(id);
    if (before) {
      if (this.#userNames.get(before.name) === before) this.#userNames.delete(before.name);
      const { identity } = before.spec;
      if (identity) this.#identities.delete(identityKey(identity.providerId, identity.subject));
    }
    if (object) this.#setUser(id, object);
    else {
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

  #setUser(id: string, { name, spec }: Omit<ChangedObject, 'isVisible' | 'isBlocked'>): void {
    const user: User = { id, name, spec: JSON.parse(spec ?? '{}') };
    this.users.set(id, user);
    this.#userNames.set(name, user);
    const { identity } = user.spec;
    if (identity) this.#identities.set(identityKey(identity.providerId, identity.subject), user);
  }

  #roleChanged(id: string, object: ChangedObject | undefined): void {
    const before = this.roles.get(id);
    if (before && this.#roleNames.get(before.name) === before) this.#roleNames.delete(before.name);
    // Tokens of identity providers name roles.
    this.credentialsVersion++;
    if (object) this.#setRole(id, object.name);
    else {
      this.roles.delete(id);
      for (const userId of [...this.membersOf(id)]) this.#removeMember(id, userId);
      this.#membersOfRole.delete(id);
      for (const grantId of [...this.grantsOf(id).keys()]) this.#removeGrant(id, grantId);
      this.#grants.delete(id);
      this.#rightsChanged();
    }
  }

  #setRole(id: string, name: string): void {
    const role = { id, name };
    this.roles.set(id, role);
    this.#roleNames.set(name, role);
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

function replaceAll<V>(target: Map<string, V>, source: ReadonlyMap<string, V>): void {
  target.clear();
  for (const [key, value] of source) target.set(key, value);
}

const identityKey = (providerId: string, subject: string) => JSON.stringify([providerId, subject]);
