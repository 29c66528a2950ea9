// Who there is, in memory: users, roles and their members, grants, tokens. Read at the start, told of every change after its
// commit; what a principal may do is worked out here, once for each change of the rights. One server's view: several servers on one
// store will have to tell one another.

import type { Principal, Scope } from '../../model/principal.ts';
import type { Privilege } from '../../model/privileges.ts';
import type { Store } from '../../store/store.ts';
import { DirectoryLoader } from './directory_loader.ts';
import { type Grant, type Role, rootUserId, type Token, type User, type UserSpec } from './directory_types.ts';
import { GrantIndex } from './grant_index.ts';
import { GrantSet, Rights } from './rights.ts';

/** What has to be known of an object that changed. */
interface Changed {
  readonly category: string;
  readonly objectId: string;
  readonly object?: { readonly id: string; readonly name: string; readonly spec: unknown };
  /** Gone for now: what was granted on it stays, and counts for nothing meanwhile. */
  readonly isRecoverable?: true;
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
  readonly #grantsByPlace = new GrantIndex();
  /** Objects that were dropped and can come back. */
  readonly #kept = new Set<string>();
  /** By the user or role that has it; worked out when it is asked for. */
  readonly #granted = new Map<string, GrantSet>();
  readonly #rights = new WeakMap<Principal, Rights>();
  readonly #scopes = new WeakMap<readonly Scope[], Rights>();
  /** Moves with every change of what somebody may. */
  rightsVersion = 0;
  /** Moves with every change that can make credentials void. */
  credentialsVersion = 0;

  async load(store: Store): Promise<void> {
    const objects = await store.db
      .selectFrom('objects')
      .select(['id', 'category', 'name', 'spec'])
      .where('category', 'in', ['users', 'roles'])
      .where('parent_id', 'is', null)
      .where('state', 'in', ['ready', 'altering'])
      .execute();
    const rows = new DirectoryLoader(store);
    for (const { id, category, name, spec } of objects)
      this.objectChanged({
        category,
        objectId: rows.intern(id),
        object: { id: rows.intern(id), name, spec: JSON.parse(spec) },
      });
    await rows.loadMembers((roleId, userId) => this.#join(roleId, userId));
    await rows.loadGrants((grant) => this.#enter(grant));
    await rows.loadTokens((token) => this.tokens.set(token.digest, token));
    await rows.loadDropped((id) => this.#kept.add(id));
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

  /** The name of a user now; of one that is gone, its id. */
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

  /** Those that count: grants on what was dropped do again when it comes back. */
  effectiveGrantsOf(granteeId: string): Iterable<Grant> {
    const grants = this.grantsOf(granteeId).values();
    if (this.#kept.size === 0) return grants;
    return grants.filter(({ path }) => !path.some((id) => this.#kept.has(id)));
  }

  /** The user and the roles whose grants a principal has. */
  subjectsOf(principal: Principal): string[] {
    return [...new Set([principal.id, ...this.rolesOf(principal.id), ...(principal.roles ?? [])])];
  }

  /** Whether somebody may act at all. */
  isActive(principal: Principal): boolean {
    const user = this.users.get(principal.id);
    return user !== undefined && (user.spec.disabled !== true || user.id === rootUserId);
  }

  /** Its scopes apart. */
  rightsOf(principal: Principal): Rights {
    const known = this.#rights.get(principal);
    if (known?.version === this.rightsVersion) return known;
    const rights = new Rights(this.rightsVersion, this.#grantedTo(principal), this.#isRoot(principal));
    this.#rights.set(principal, rights);
    return rights;
  }

  /** What a token is confined to. */
  rightsOfScopes(scopes: readonly Scope[]): Rights {
    let rights = this.#scopes.get(scopes);
    if (!rights) {
      rights = new Rights(0, [new GrantSet(scopes)]);
      this.#scopes.set(scopes, rights);
    }
    return rights;
  }

  /** An object of the catalog was made, changed or dropped. Categories that are not of access only lose their grants. */
  objectChanged({ category, objectId, object, isRecoverable: kept }: Changed): void {
    if (category === 'users') this.#userChanged(objectId, object);
    else if (category === 'roles') this.#roleChanged(objectId, object);
    if (kept) this.#keep(objectId, true);
    else if (!object) this.#objectGone(objectId);
    else if (this.#kept.has(objectId)) this.#keep(objectId, false);
  }

  grantAdded(grant: Grant): void {
    this.#enter(grant);
    this.#rightsChanged();
  }

  grantRemoved(granteeId: string, grantId: string): void {
    this.#remove(granteeId, grantId);
    this.#rightsChanged();
  }

  setMembers(roleId: string, userIds: ReadonlySet<string>): void {
    for (const userId of this.membersOf(roleId)) if (!userIds.has(userId)) this.#leave(roleId, userId);
    for (const userId of userIds) this.#join(roleId, userId);
    this.#rightsChanged();
  }

  /** Something else than users and tokens made credentials void. */
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

  #grantedTo(principal: Principal): GrantSet[] {
    if (this.#isRoot(principal) || !this.isActive(principal)) return [];
    const all: GrantSet[] = [];
    for (const subject of this.subjectsOf(principal)) {
      const grants = this.#grants.get(subject);
      if (!grants || grants.size === 0) continue;
      let granted = this.#granted.get(subject);
      if (!granted) {
        granted = new GrantSet(this.effectiveGrantsOf(subject));
        this.#granted.set(subject, granted);
      }
      all.push(granted);
    }
    return all;
  }

  #keep(objectId: string, isKept: boolean): void {
    if (isKept) this.#kept.add(objectId);
    else this.#kept.delete(objectId);
    const hanging = this.#grantsByPlace.findWithin(objectId);
    for (const { granteeId } of hanging) this.#granted.delete(granteeId);
    if (hanging.length > 0) this.#rightsChanged();
  }

  #userChanged(id: string, object: Changed['object']): void {
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
      for (const roleId of [...this.rolesOf(id)]) this.#leave(roleId, id);
      this.#rolesOfUser.delete(id);
      for (const grantId of [...this.grantsOf(id).keys()]) this.#remove(id, grantId);
      this.#grants.delete(id);
      for (const [digest, token] of this.tokens) if (token.userId === id) this.tokens.delete(digest);
    }
    this.credentialsVersion++;
    this.#rightsChanged();
  }

  #roleChanged(id: string, object: Changed['object']): void {
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
      for (const userId of [...this.membersOf(id)]) this.#leave(id, userId);
      this.#membersOfRole.delete(id);
      for (const grantId of [...this.grantsOf(id).keys()]) this.#remove(id, grantId);
      this.#grants.delete(id);
      this.#rightsChanged();
    }
  }

  /** The store let go of the grants on it. An id is never used again, but what held it may be out of reach now. */
  #objectGone(objectId: string): void {
    this.#kept.delete(objectId);
    const gone = this.#grantsByPlace.findWithin(objectId);
    for (const { granteeId, grantId } of gone) this.#remove(granteeId, grantId);
    if (gone.length > 0) this.#rightsChanged();
  }

  #remove(granteeId: string, grantId: string): void {
    const grants = this.#grants.get(granteeId);
    const grant = grants?.get(grantId);
    if (!grants || !grant) return;
    grants.delete(grantId);
    this.#granted.delete(granteeId);
    this.#grantsByPlace.remove(grant);
  }

  #enter(grant: Grant): void {
    const { granteeId, grantId } = grant;
    const grants = this.#grants.get(granteeId);
    if (grants?.has(grantId)) return;
    this.#granted.delete(granteeId);
    this.#grantsByPlace.add(grant);
    if (grants) grants.set(grantId, grant);
    else this.#grants.set(granteeId, new Map([[grantId, grant]]));
  }

  #join(roleId: string, userId: string): void {
    addTo(this.#rolesOfUser, userId, roleId);
    addTo(this.#membersOfRole, roleId, userId);
  }

  #leave(roleId: string, userId: string): void {
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
