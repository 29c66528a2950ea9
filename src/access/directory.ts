// Who there is, in memory: users, roles and their members, grants, tokens. Read at the start, told of every change after its
// commit; what a principal may do is worked out here, once for each change of the rights. One server's view: several servers on one
// store will have to tell one another.

import type { Principal, Scope } from '../model/principal.ts';
import { bitOf, type Privilege } from '../model/privileges.ts';
import type { Store } from '../store/store.ts';

export interface UserSpec {
  readonly comment?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly disabled?: boolean;
  /** PHC string. */
  readonly passwordHash?: string;
  /** Who it is at an identity provider. */
  readonly identity?: { readonly providerId: string; readonly subject: string };
}

export interface User {
  readonly id: string;
  readonly name: string;
  readonly spec: UserSpec;
}

export interface Role {
  readonly id: string;
  readonly name: string;
}

export interface Grant {
  readonly grantId: string;
  readonly granteeId: string;
  readonly privilege: Privilege;
  readonly onId: string;
  /** Ids from the root to `onId`. */
  readonly path: readonly string[];
  readonly createdAt: number;
  readonly createdBy: string;
}

export interface Token {
  readonly tokenId: string;
  readonly userId: string;
  readonly name: string;
  readonly digest: string;
  readonly scopes: readonly Scope[] | undefined;
  readonly expiresAt: number | undefined;
  lastUsedAt: number | undefined;
}

/** What is granted to one principal, all of it together. */
export interface Rights {
  /** Everything: `root` without a scope. */
  readonly all: boolean;
  /** By id of an object or mark of a place: a set of privileges (model/privileges.ts). */
  readonly sets: ReadonlyMap<string, number>;
  /** Ids above something that is granted. */
  readonly within: ReadonlySet<string>;
}

/** What has to be known of an object that changed. */
interface Changed {
  readonly category: string;
  readonly objectId: string;
  readonly object?: { readonly id: string; readonly name: string; readonly spec: unknown };
}

const none: Rights = { all: false, sets: new Map(), within: new Set() };
export const rootUserId = 'root';

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
  /** How many grants are on an id or in it. */
  readonly #grantsIn = new Map<string, number>();
  #rights = new WeakMap<Principal, Rights>();
  #scopes = new WeakMap<readonly Scope[], Rights>();
  /** Moves with every change of what somebody may. */
  rightsVersion = 0;
  /** Moves with every change that can make credentials void. */
  credentialsVersion = 0;

  async load({ db }: Store): Promise<void> {
    const objects = await db
      .selectFrom('objects')
      .select(['id', 'category', 'name', 'spec'])
      .where('category', 'in', ['users', 'roles'])
      .where('parent_id', 'is', null)
      .where('state', 'in', ['ready', 'altering'])
      .execute();
    for (const { id, category, name, spec } of objects)
      this.changed({ category, objectId: id, object: { id, name, spec: JSON.parse(spec) } });
    for (const { role_id, user_id } of await db.selectFrom('role_members').selectAll().execute())
      this.#join(role_id, user_id);
    for (const row of await db.selectFrom('grants').selectAll().execute()) this.#enter(grantOf(row));
    for (const row of await db.selectFrom('tokens').selectAll().execute()) {
      this.tokens.set(row.digest, {
        tokenId: row.token_id,
        userId: row.user_id,
        name: row.name,
        digest: row.digest,
        scopes: row.scopes === null ? undefined : (JSON.parse(row.scopes) as Scope[]),
        expiresAt: row.expires_at ?? undefined,
        lastUsedAt: row.last_used_at ?? undefined,
      });
    }
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
    let rights = this.#rights.get(principal);
    if (!rights) {
      rights = this.#isRoot(principal) ? { ...none, all: true } : this.#gathered(principal);
      this.#rights.set(principal, rights);
    }
    return rights;
  }

  /** What a token is confined to. */
  rightsOfScopes(scopes: readonly Scope[]): Rights {
    let rights = this.#scopes.get(scopes);
    if (!rights) {
      rights = rightsFrom(scopes);
      this.#scopes.set(scopes, rights);
    }
    return rights;
  }

  /** An object of the catalog was made, changed or dropped. Categories that are not of access only lose their grants. */
  changed({ category, objectId, object }: Changed): void {
    if (category === 'users') this.#userChanged(objectId, object);
    else if (category === 'roles') this.#roleChanged(objectId, object);
    if (!object) this.#objectGone(objectId);
  }

  granted(grant: Grant): void {
    this.#enter(grant);
    this.#rightsChanged();
  }

  revoked(granteeId: string, grantId: string): void {
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

  tokenMade(token: Token): void {
    this.tokens.set(token.digest, token);
  }

  tokenGone(digest: string): void {
    this.tokens.delete(digest);
    this.credentialsVersion++;
  }

  #isRoot({ id }: Principal): boolean {
    return id === rootUserId;
  }

  #gathered(principal: Principal): Rights {
    if (!this.isActive(principal)) return none;
    const grants = this.subjectsOf(principal).flatMap((subject) => [...this.grantsOf(subject).values()]);
    return rightsFrom(grants);
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

  /** The store let go of the grants on it; an id is never used again, so this is about memory alone. */
  #objectGone(objectId: string): void {
    if (!this.#grantsIn.has(objectId)) return;
    for (const [granteeId, grants] of this.#grants)
      for (const grant of [...grants.values()])
        if (grant.path.includes(objectId)) this.#remove(granteeId, grant.grantId);
  }

  #remove(granteeId: string, grantId: string): void {
    const grant = this.#grants.get(granteeId)?.get(grantId);
    if (!grant) return;
    this.#grants.get(granteeId)?.delete(grantId);
    for (const id of grant.path) {
      const count = (this.#grantsIn.get(id) ?? 0) - 1;
      if (count > 0) this.#grantsIn.set(id, count);
      else this.#grantsIn.delete(id);
    }
  }

  #enter(grant: Grant): void {
    const grants = this.#grants.get(grant.granteeId);
    if (grants?.has(grant.grantId)) return;
    for (const id of grant.path) this.#grantsIn.set(id, (this.#grantsIn.get(id) ?? 0) + 1);
    if (grants) grants.set(grant.grantId, grant);
    else this.#grants.set(grant.granteeId, new Map([[grant.grantId, grant]]));
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
    this.#rights = new WeakMap();
  }
}

function addTo(sets: Map<string, Set<string>>, key: string, value: string): void {
  const set = sets.get(key);
  if (set) set.add(value);
  else sets.set(key, new Set([value]));
}

const identityKey = (providerId: string, subject: string) => JSON.stringify([providerId, subject]);

function rightsFrom(granted: Iterable<Scope>): Rights {
  const sets = new Map<string, number>();
  const within = new Set<string>();
  for (const { privilege, path } of granted) {
    const id = path.at(-1) as string;
    sets.set(id, (sets.get(id) ?? 0) | bitOf(privilege));
    for (const above of path) within.add(above);
  }
  return { all: false, sets, within };
}

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
