// Authorization: whether a principal holds a privilege on an object. A grant on an object applies to everything inside it; the owner
// of an object holds all privileges on it; the scopes of a token only restrict. Everything else is denied.

import type { Granted, Principal } from '../../model/principal.ts';
import { holds, type Privilege } from '../../model/privileges.ts';
import type { Permission } from '../../standard/endpoint.ts';
import { Failure } from '../../standard/failure.ts';
import { type Segment, uriOf } from '../../standard/paths.ts';
import type { Directory } from './directory.ts';
import { objectIdsOf } from './grant_scopes.ts';
import { readablePaths } from './readable_paths.ts';
import type { Rights } from './rights.ts';

/** The properties of an object in a path that a decision depends on. */
export interface PathObject {
  readonly id: string;
  readonly owner: string;
}

/** `all`: the privilege is held on the target. `within`: only on something inside it. */
export type GrantReach = 'all' | 'within';

/** `objects`: those of the path, root first, on which the decision depends; other ones may have their names later. */
export interface Authorization {
  readonly reach: GrantReach;
  readonly objects: readonly PathObject[];
}

/** The target of a required privilege. `category` is the top-level category of `path`; an empty path is the whole collection. */
export interface AuthorizationTarget {
  readonly category: string;
  readonly path: readonly Segment[];
  /** Cached by the authorizer for further decisions on the same target. */
  resolved?: ResolvedPath | undefined;
}

interface ResolvedPath {
  readonly version: number;
  readonly steps: readonly PathObject[];
}

/** Children that a list may show: those that `owner` owns and those in `ids`, if `filter` accepts them. */
export interface VisibleChildren {
  readonly owner?: string;
  readonly ids: readonly string[];
  readonly filter?: (child: PathObject) => boolean;
}

export interface AuthorizerOptions {
  readonly directory: Directory;
  /** The existing objects of a path, from the root. Always one query, so that timing does not reveal which objects exist. */
  readonly resolvePath: (path: readonly Segment[]) => Promise<readonly PathObject[]>;
  readonly ownsDescendant: (userId: string, objectId: string) => Promise<boolean>;
  /** The ids of the parents and grandparents of everything that a user owns. */
  readonly ancestorsOfOwned: (userId: string) => Promise<readonly string[]>;
  /** The current owners of objects; deleted objects are omitted. */
  readonly ownersOf: (ids: readonly string[]) => Promise<readonly PathObject[]>;
  /** The id that an object has now, if it got another one: at the root of a path, one may. */
  readonly latestId: (id: string) => Promise<string>;
}

interface RecordedDecisions {
  readonly decisions: Granted[];
  /** Serialized decisions, to record each once. */
  readonly keys: Set<string>;
}

const emptyPath: readonly PathObject[] = [];
const onNoObject: Authorization = { reach: 'all', objects: emptyPath };
/** Size of the cache of parent paths. */
const parentsMax = 10_000;

export class Authorizer {
  readonly #options: AuthorizerOptions;
  readonly #directory: Directory;
  readonly #parents = new Map<string, readonly PathObject[]>();
  readonly #recorded = new WeakMap<Principal, RecordedDecisions>();
  /** Incremented when a path may resolve to other objects, or an object has a new owner. */
  #version = 0;

  constructor(options: AuthorizerOptions) {
    this.#options = options;
    this.#directory = options.directory;
  }

  /** Differs from an earlier one if decisions may differ. */
  get generation(): number {
    return this.#version + this.#directory.rightsVersion;
  }

  /** Call it after objects were renamed, dropped, or had their owner changed. */
  pathsChanged(): void {
    this.#version++;
    this.#parents.clear();
  }

  /**
   * Records from now on every privilege that is allowed to this principal object, which must belong to a single request. The returned
   * list grows with each decision; `requireStillAllowed` checks it before the response is replayed.
   */
  record(principal: Principal): readonly Granted[] {
    const recorded: RecordedDecisions = { decisions: [], keys: new Set() };
    this.#recorded.set(principal, recorded);
    return recorded.decisions;
  }

  /** Throws FORBIDDEN unless every recorded decision would be allowed now, with these credentials, on the same objects. */
  async requireStillAllowed(principal: Principal, granted: readonly Granted[]): Promise<void> {
    const { latestId, ownersOf } = this.#options;
    const latest = new Map<string, string>();
    for (const id of new Set(granted.flatMap(({ path }) => path.slice(0, 1).map((root) => root.id))))
      latest.set(id, await latestId(id));
    const idOf = ({ id }: PathObject) => latest.get(id) ?? id;
    const ids = new Set(granted.flatMap(({ path }) => path.map(idOf)));
    const current = new Map((await ownersOf([...ids])).map((object) => [object.id, object]));
    for (const decision of granted) {
      // A deleted object counts with the owner that was recorded.
      const objects = decision.path.map((object) => current.get(idOf(object)) ?? { ...object, id: idOf(object) });
      if (await this.#isStillAllowed(principal, decision, objects)) continue;
      const { privilege } = decision;
      throw new Failure('FORBIDDEN', `the request needs the privilege ${privilege}, which is no longer held`, {
        privilege,
      });
    }
  }

  async #isStillAllowed(principal: Principal, granted: Granted, steps: readonly PathObject[]): Promise<boolean> {
    const { privilege, category, within, self } = granted;
    if (self) return this.#directory.isActive(principal) && isSameScope(principal.scopes, granted.scopes);
    if (this.#isCoveredByPath(principal, privilege, category, steps)) return true;
    return within === true && this.#hasAccessWithin(principal, category, steps, steps.at(-1), steps.length === 0);
  }

  #recordDecision(principal: Principal, granted: Omit<Granted, 'path'>, steps: readonly PathObject[]): void {
    const recorded = this.#recorded.get(principal);
    if (!recorded) return;
    const decision: Granted = { ...granted, path: steps.map(({ id, owner }) => ({ id, owner })) };
    const key = JSON.stringify(decision);
    if (recorded.keys.has(key)) return;
    recorded.keys.add(key);
    recorded.decisions.push(decision);
  }

  /** Throws FORBIDDEN, with the same message whether the object exists or not. */
  authorize(
    principal: Principal,
    permission: Permission,
    target: AuthorizationTarget,
  ): Authorization | Promise<Authorization> {
    const { privilege } = permission;
    const { category, path, resolved } = target;
    if (permission.on === 'caller') {
      this.#requireWholeUser(principal);
      this.#recordDecision(principal, { privilege, category, self: true }, emptyPath);
      return onNoObject;
    }
    if (permission.orSelf && this.isSelf(principal, path)) {
      this.#recordDecision(principal, { privilege, category, self: true }, emptyPath);
      return { reach: 'all', objects: [{ id: principal.id, owner: principal.id }] };
    }
    if (this.#recorded.has(principal)) return this.#authorizeFromStore(principal, permission, target, '');
    const steps = resolved?.version === this.#version ? resolved.steps : emptyPath;
    const covered = this.#covered(principal, privilege, category, steps);
    if (covered) return covered;
    const parentKey = path.length > 1 ? keyOf(path, path.length - 1) : '';
    const parents = this.#parents.get(parentKey);
    const coveredByParents = parents && this.#covered(principal, privilege, category, parents);
    if (coveredByParents) return coveredByParents;
    return this.#authorizeFromStore(principal, permission, target, parentKey);
  }

  /** For privileges that handlers and statements need in addition to the permission of their endpoint. */
  async isAllowed(principal: Principal, privilege: Privilege, target: AuthorizationTarget): Promise<boolean> {
    const steps = target.path.length === 0 ? [] : await this.#options.resolvePath(target.path);
    return this.isAllowedOn(principal, privilege, target.category, steps);
  }

  async require(principal: Principal, privilege: Privilege, target: AuthorizationTarget): Promise<void> {
    if (!(await this.isAllowed(principal, privilege, target))) throw forbidden(privilege, target);
  }

  /** For statements and tasks that run in a warehouse. Throws FORBIDDEN. */
  async requireUse(principal: Principal, warehouse: string): Promise<void> {
    const path = [{ category: 'warehouses', name: warehouse }];
    await this.require(principal, 'use', { category: 'warehouses', path });
  }

  /** The ids of the objects of a path, which a rename does not change; the name where the catalog has no such object. */
  async identityOf(path: readonly Segment[]): Promise<string[]> {
    const steps = path.length === 0 ? emptyPath : await this.#options.resolvePath(path);
    return path.map(({ name }, i) => steps[i]?.id ?? name);
  }

  /** For an object whose path is already resolved. */
  isAllowedOn(principal: Principal, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
    const isAllowed = this.#isCoveredByPath(principal, privilege, category, steps);
    if (isAllowed) this.#recordDecision(principal, { privilege, category }, steps);
    return isAllowed;
  }

  /** As `isAllowedOn`, for decisions on how much is shown: not recorded as a privilege that the request needs. */
  isVisible(principal: Principal, privilege: Privilege, category: string, steps: readonly PathObject[]): boolean {
    return this.#isCoveredByPath(principal, privilege, category, steps);
  }

  /** What is private to a user is closed to its tokens with scopes. */
  #requireWholeUser(principal: Principal): void {
    if (principal.scopes === undefined && this.#directory.isActive(principal)) return;
    throw new Failure('FORBIDDEN', 'a token with scopes has no access to the private objects of its user');
  }

  /** Never true for a token with scopes: it could create a token without them. */
  isSelf(principal: Principal, path: readonly Segment[]): boolean {
    const [first] = path;
    return (
      principal.scopes === undefined &&
      first?.category === 'users' &&
      this.#directory.userNamed(first.name)?.id === principal.id &&
      this.#directory.isActive(principal)
    );
  }

  /** Whether `principal` may act on what `owner` submitted: the same user, and a token with scopes only what has the same scopes. */
  isSubmitter(principal: Principal, owner: Principal): boolean {
    if (principal.id !== owner.id || !this.#directory.isActive(principal)) return false;
    const isSubmitter = isSameScope(principal.scopes, owner.scopes);
    const { scopes } = owner;
    if (isSubmitter)
      this.#recordDecision(
        principal,
        { privilege: 'own', category: 'users', self: true, ...(scopes ? { scopes } : {}) },
        emptyPath,
      );
    return isSubmitter;
  }

  /** Which children a list shows to a principal who may not read their whole parent. `steps`: the path of the parent. */
  visibleChildren(principal: Principal, category: string, steps: readonly PathObject[]): VisibleChildren {
    const rights = this.#directory.rightsOf(principal);
    const { id, scopes } = principal;
    const granted = rights.readableIds();
    if (scopes === undefined) return { owner: id, ids: [...granted, id] };
    const scoped = this.#directory.rightsOfScopes(scopes);
    if (covers(scoped, 'read', category, steps)) return { owner: id, ids: granted };
    const ids = scoped.readableIds();
    const mayReadParent = covers(rights, 'read', category, steps) || this.#owns(principal, steps);
    const grantedIds = new Set(granted);
    return { ids, filter: (child) => mayReadParent || child.owner === id || grantedIds.has(child.id) };
  }

  /**
   * As `visibleChildren`, with those in which the principal may read something: of these, only the names may be shown. With a token that
   * has scopes, what is owned counts only where the scopes include the child.
   */
  async browsableChildren(
    principal: Principal,
    category: string,
    steps: readonly PathObject[],
  ): Promise<VisibleChildren> {
    const { id, scopes } = principal;
    const visible = this.visibleChildren(principal, category, steps);
    const rights = this.#directory.rightsOf(principal);
    const scoped = scopes && this.#directory.rightsOfScopes(scopes);
    const scopePaths = scoped?.readPaths() ?? [];
    const scopedObjects = await this.#options.ownersOf(objectIdsOf(scopePaths.flat()));
    const owned = new Set(scopedObjects.filter(({ owner }) => owner === id).map((object) => object.id));
    const onPaths = readablePaths(rights, scoped, (objectId) => owned.has(objectId)).flat();
    const mayOwn = (objectId: string) =>
      !scoped || covers(scoped, 'read', category, steps) || holds(scoped.privilegesOn(objectId), 'read');
    const ids = new Set([...onPaths, ...(await this.#options.ancestorsOfOwned(id)).filter(mayOwn)]);
    const { filter } = visible;
    return {
      ...visible,
      ids: [...new Set([...visible.ids, ...ids])],
      ...(filter ? { filter: (child) => ids.has(child.id) || filter(child) } : {}),
    };
  }

  async #authorizeFromStore(
    principal: Principal,
    permission: Permission,
    target: AuthorizationTarget,
    parentKey: string,
  ): Promise<Authorization> {
    const { privilege, orWithin } = permission;
    const { category, path } = target;
    const version = this.#version;
    const steps = path.length === 0 ? [] : await this.#options.resolvePath(path);
    const allowed = this.#covered(principal, privilege, category, steps);
    // Cached only if allowed, so that the duration of a refusal does not reveal whether the object exists.
    if (allowed && version === this.#version && steps.length === path.length) {
      target.resolved = { version, steps };
      if (parentKey !== '') {
        if (this.#parents.size >= parentsMax) this.#parents.clear();
        this.#parents.set(parentKey, steps.slice(0, -1));
      }
    }
    if (allowed) {
      this.#recordDecision(principal, { privilege, category }, steps);
      return allowed;
    }
    const last = steps.length === path.length ? steps.at(-1) : undefined;
    if (orWithin && (await this.#hasAccessWithin(principal, category, steps, last, path.length === 0))) {
      this.#recordDecision(principal, { privilege, category, within: true }, steps);
      return { reach: 'within', objects: steps };
    }
    throw forbidden(privilege, target);
  }

  /** Top-level collections are visible to everyone; any other object only to principals with a grant or an own object inside it. */
  async #hasAccessWithin(
    principal: Principal,
    category: string,
    steps: readonly PathObject[],
    last: PathObject | undefined,
    isTop: boolean,
  ): Promise<boolean> {
    if (!this.#directory.isActive(principal)) return false;
    if (isTop) return true;
    const rights = this.#directory.rightsOf(principal);
    const isInScope = last !== undefined && this.#isInScope(principal, category, steps, last);
    if (
      isInScope &&
      (rights.hasAnyWithin(last.id) || covers(rights, 'read', category, steps) || this.#owns(principal, steps))
    )
      return true;
    // Queried for a missing object too, so that the duration of a refusal does not reveal whether the object exists.
    const owns = await this.#options.ownsDescendant(principal.id, last?.id ?? '');
    return isInScope && owns;
  }

  #isInScope({ scopes }: Principal, category: string, steps: readonly PathObject[], last: PathObject): boolean {
    if (scopes === undefined) return true;
    const scoped = this.#directory.rightsOfScopes(scopes);
    return scoped.hasAnyWithin(last.id) || covers(scoped, 'read', category, steps);
  }

  #isCoveredByPath(
    principal: Principal,
    privilege: Privilege,
    category: string,
    steps: readonly PathObject[],
  ): boolean {
    return this.#covered(principal, privilege, category, steps) !== undefined;
  }

  #covered(
    principal: Principal,
    privilege: Privilege,
    category: string,
    steps: readonly PathObject[],
  ): Authorization | undefined {
    const { scopes } = principal;
    const byScopes =
      scopes === undefined ? 0 : coverage(this.#directory.rightsOfScopes(scopes), privilege, category, steps);
    if (byScopes === undefined) return undefined;
    const byRights =
      coverage(this.#directory.rightsOf(principal), privilege, category, steps) ?? this.#ownership(principal, steps);
    if (byRights === undefined) return undefined;
    const length = Math.max(byScopes, byRights);
    if (length === 0) return onNoObject;
    return { reach: 'all', objects: length === steps.length ? steps : steps.slice(0, length) };
  }

  #owns(principal: Principal, steps: readonly PathObject[]): boolean {
    return this.#ownership(principal, steps) !== undefined;
  }

  /** How many objects of the path, from the root, end in one that the principal owns. */
  #ownership(principal: Principal, steps: readonly PathObject[]): number | undefined {
    for (const [n, { owner }] of steps.entries())
      if (owner === principal.id) return this.#directory.isActive(principal) ? n + 1 : undefined;
    return undefined;
  }
}

/** A token with scopes has access only to what was submitted with the same scopes. */
const isSameScope = (scopes: Principal['scopes'], owned: Principal['scopes']) =>
  scopes === undefined || JSON.stringify(scopes) === JSON.stringify(owned);

function covers(...decision: Parameters<typeof coverage>): boolean {
  return coverage(...decision) !== undefined;
}

/** How many objects of the path, from the root, are needed to hold the privilege; undefined: it is not held. */
function coverage(
  rights: Rights,
  privilege: Privilege,
  category: string,
  steps: readonly PathObject[],
): number | undefined {
  if (rights.isUnrestricted) return 0;
  if (holds(rights.privilegesOnCollection(category), privilege)) return 0;
  for (const [n, { id }] of steps.entries()) if (holds(rights.privilegesOn(id), privilege)) return n + 1;
  return undefined;
}

/** Cache key of the first `length` segments of a path; unique, whatever characters the names contain. */
function keyOf(path: readonly Segment[], length: number): string {
  let key = '';
  for (let i = 0; i < length; i++) {
    const { category, name } = path[i] as Segment;
    key += `${category}/${name.length}/${name}`;
  }
  return key;
}

export function forbidden(
  privilege: Privilege,
  { category, path }: Pick<AuthorizationTarget, 'category' | 'path'>,
): Failure {
  const target = path.length === 0 ? `/api/v2/${category}` : uriOf('v2', path);
  return new Failure('FORBIDDEN', `this needs the privilege ${privilege} on ${target}`, { privilege, on: target });
}
